/* crew.h - starts the workers, leads them through the phases and adds up what they did. */
#ifndef RAND_MALLOC_BENCH_CREW_H
#define RAND_MALLOC_BENCH_CREW_H

#include "bench.h"

/* Run the workload of bench->settings to its end; fills counted, timing and curve. */
void crew_run(struct bench *bench);

/* Append one sample to the curve, if there is room. */
void curve_add(struct curve *curve, uint64_t time_ns, uint64_t live_bytes);

void curve_open(struct curve *curve, uint32_t room);

#endif
