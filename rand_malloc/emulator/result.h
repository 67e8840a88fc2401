/* result.h - the JSON object "rand_malloc.result"; fields in docs/formats.md. */
#ifndef RAND_MALLOC_RESULT_H
#define RAND_MALLOC_RESULT_H

#include "heap.h"
#include "instruments/instrument.h"

struct result {
    const struct options *options;
    const struct workload *workload;
    const struct run *memory;        /* NULL: no memory run was made */
    const struct heap_figures *heap; /* with memory */
    const struct counted *counted;   /* NULL: nothing was counted */
};

/* EXIT_OK, or another code after a message. */
int result_print(const struct result *result);

#endif
