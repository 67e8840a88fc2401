/* supply.h - where a heap's units come from: its superblocks, the pool, orphans, the system. */
#ifndef EXGEN_SUPPLY_H
#define EXGEN_SUPPLY_H

#include "heap/heap.h"

/* `n` units of one superblock as a slab without class; `anywhere` if the slab
 * may start right behind the head.  NULL if out of memory. */
struct slab *supply_take(struct heap *heap, size_t n, bool anywhere);

/* The same from the heap's own superblocks only, or from one of the pool. */
struct slab *supply_take_own(struct heap *heap, size_t n, bool anywhere);
struct slab *supply_take_pooled(struct heap *heap, size_t n, bool anywhere);

/* Make a superblock of a thread that ended the heap's, with the slabs in it; false if there is
 * none to be had. */
bool supply_adopt(struct heap *heap);

/* Give the units of an empty slab back. */
void supply_give(struct heap *heap, struct slab *slab);

/* Resize a block with units of its own in place; false if it cannot be. */
bool supply_resize_run(struct heap *heap, struct slab *slab, size_t n_units);

/* Make heap_tick look for memory to give back after purge_delay. */
void supply_schedule_purge(struct heap *heap);

/* A look at all superblocks: free memory that was so at the last look goes back to
 * the system.  In steps, while `looks`, so that no malloc takes long, or as a whole.  With
 * `may_hold` it may be left out for the units of a heap near its highest point.  Sets the
 * time of the next look. */
void supply_purge_begin(struct heap *heap, uint64_t now_ms, bool may_hold);
void supply_purge_step(struct heap *heap);
void supply_purge(struct heap *heap, uint64_t now_ms);

/* Give all free memory of the heap back at once. */
void supply_purge_all(struct heap *heap);

/* Add or remove a whole superblock with whatever slabs are in it. */
void supply_link(struct heap *heap, struct superblock *sb);
void supply_unlink(struct heap *heap, struct superblock *sb);

bool supply_is_valid(const struct heap *heap);

#endif
