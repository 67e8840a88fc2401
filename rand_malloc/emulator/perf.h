/* perf.h - hardware instruction counter inside the replayer; see perf_event_open(2). */
#ifndef RAND_MALLOC_PERF_H
#define RAND_MALLOC_PERF_H

#include "harness.h"

/* Opens a disabled counter of user instructions of this process and its later threads.
 * Returns the descriptor or a negative errno. */
int perf_open_counter(void);

void perf_open(struct replay *replay);
void perf_begin(void);
void perf_end(struct outcome *outcome);

#endif
