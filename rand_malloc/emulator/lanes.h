/* lanes.h - one real thread per lane of the trace; see lanes.c. */
#ifndef RAND_MALLOC_LANES_H
#define RAND_MALLOC_LANES_H

#include "harness.h"

/* Maps what the lanes need; before the region. */
void lanes_prepare(struct replay *replay);

/* Runs all lanes to the end; the caller is thread 0 of the trace. */
void lanes_run(struct replay *replay);

/* Adds up what the lanes verified. */
void lanes_total(const struct replay *replay, struct tally *total);

#endif
