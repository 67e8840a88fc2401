/* refill.h - blocks for a heap whose lists have none, in the order of what they cost in memory. */
#ifndef EXGEN_REFILL_H
#define EXGEN_REFILL_H

#include "heap/heap.h"

/* A block of `class` when its ready list has none.  NULL if out of memory. */
void *refill(struct heap *heap, size_t class);

/* A block above the classes, at a multiple of `alignment`, up to UNIT_BYTES: from a tray, or
 * with units of its own.  NULL if out of memory. */
void *refill_run(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero);

/* A block that is a mapping of its own, at a multiple of `alignment`.  NULL if out of memory. */
void *refill_large(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero);

/* Resize a block with units of its own in place; false if it cannot be. */
bool refill_resize_run(struct heap *heap, struct slab *slab, size_t n_units);

#endif
