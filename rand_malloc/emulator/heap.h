/* heap.h - the figures about memory that follow from the readings of one run. */
#ifndef RAND_MALLOC_HEAP_H
#define RAND_MALLOC_HEAP_H

#include "run.h"

struct heap_figures {
    uint64_t peak_bytes; /* above the baseline */
    double mean_bytes;   /* over the time of the plan, without lazily freed pages */
    double final_bytes;  /* at the last reading, without them too */
    uint64_t live_at_peak_bytes;
    uint64_t lazy_bytes; /* at the last reading */
    double *curve;       /* [n_samples] heap above the baseline; owned */
    uint64_t n_samples;
};

/* False if memory is short. */
bool heap_figures(const struct run *run, struct heap_figures *figures);

#endif
