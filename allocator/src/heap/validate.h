/* validate.h - the walkers over a heap, and the counts that need the same walk. */
#ifndef EXGEN_VALIDATE_H
#define EXGEN_VALIDATE_H

#include "heap/heap.h"

bool heap_is_valid(const struct heap *heap);

/* Blocks and bytes in use (blocks in the calling thread's lists are not). */
void heap_count(struct heap *heap, struct local *l, size_t *n_blocks, size_t *n_bytes);

#endif
