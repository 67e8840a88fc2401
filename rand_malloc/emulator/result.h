/* result.h - the JSON object "rand_malloc.result"; fields in docs/formats.md. */
#ifndef RAND_MALLOC_RESULT_H
#define RAND_MALLOC_RESULT_H

#include "heap.h"
#include "instruments/instrument.h"

struct result {
    const struct options *options;
    const struct workload *workload;
    const struct run *memory;           /* NULL: no memory run was made */
    const struct heap_figures *heap;    /* with memory */
    const struct instructions *counted; /* NULL: nothing was counted */
    const char *instrument;
    const char *malloc_from;
    uint64_t checksum;
    uint64_t verified_blocks;
};

void result_print(const struct result *result);

#endif
