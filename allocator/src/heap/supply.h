/* supply.h - where a heap's units come from: its superblocks, the pool, the system. */
#ifndef EXGEN_SUPPLY_H
#define EXGEN_SUPPLY_H

#include "heap/heap.h"

/* `n` units of one superblock as a slab without class, at a multiple of `step` units, a power of
 * two up to a quarter of it; 0: the slab may start right behind the head.  From the heap's
 * superblocks, from one of the pool, or from a new one of the system.  NULL if there are none. */
struct slab *supply_take_own(struct heap *heap, size_t n, size_t step);
struct slab *supply_take_pooled(struct heap *heap, size_t n, size_t step);
struct slab *supply_take_mapped(struct heap *heap, size_t n, size_t step);

/* Give the units of an empty slab back. */
void supply_give(struct heap *heap, struct slab *slab);

/* Resize a block with units of its own in place; false if it cannot be. */
bool supply_resize_run(struct heap *heap, struct slab *slab, size_t n_units);

/* Have the heap look for memory to give back after purge_delay. */
void supply_schedule_purge(struct heap *heap);

/* A step of a look at the superblocks from heap->purge_next on: free units that were so at the
 * last look go back to the system.  False after the last superblock. */
bool supply_purge_step(struct heap *heap);

/* Give all free memory of the heap back at once, or of one superblock of it; that returns the next.
 */
void supply_purge_all(struct heap *heap);
struct superblock *supply_purge_one(struct heap *heap, struct superblock *sb);

/* Add or remove a whole superblock with whatever slabs are in it. */
void supply_link(struct heap *heap, struct superblock *sb);
void supply_unlink(struct heap *heap, struct superblock *sb);

bool supply_is_valid(const struct heap *heap);

#endif
