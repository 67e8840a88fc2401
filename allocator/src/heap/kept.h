/* kept.h - freed blocks above the size classes, kept by length for the next request of that length.
 *
 * A tray merges what is freed and searches what is asked for; a superblock does both with units.
 * A block that is kept does neither: it stays a block of its tray (marked, so that a second free
 * is seen) or the one free block of its slab, in the list of its length.  What is kept does not
 * raise the peak: before a heap takes more units than it ever had in use, all of it is given back
 * (kept_give_back), as before a new tray if little of it was used again, and at every look of the
 * purger.
 *
 *   blocks[n]  blocks of n steps on trays, linked through their first words
 *   runs[n]    slabs of n units with a single block, linked through `next`
 */
#ifndef EXGEN_KEPT_H
#define EXGEN_KEPT_H

#include "heap/heap.h"

/* Whether the heap may keep `bytes` more. */
ALWAYS_INLINE bool kept_has_room(const struct heap *heap, size_t bytes) {
    size_t most = (heap->n_units << UNIT_SHIFT) / 100 * options.kept_percent;
    return heap->kept.bytes + bytes <= (most > options.kept_min ? most : options.kept_min) &&
           options.purge_delay > 0;
}

/* A block of a tray that was kept for `n` steps; NULL if there is none. */
ALWAYS_INLINE void *kept_take_block(struct heap *heap, size_t n) {
    void *block = heap->kept.blocks[n];
    if (block == NULL)
        return NULL;
    heap->kept.blocks[n] = link_follow(block);
    __builtin_prefetch(heap->kept.blocks[n]);
    heap->kept.bytes -= n << tray_layout.step_shift;
    heap->kept.hit_bytes += n << tray_layout.step_shift;
    uint8_t *length = tray_length_of(block);
    if (unlikely(*length != (n | TRAY_KEPT)))
        fatal("corrupted free list", block);
    *length = (uint8_t)n;
    return block;
}

ALWAYS_INLINE void kept_add_block(struct heap *heap, uint8_t *length, void *block) {
    size_t n = *length;
    *length = (uint8_t)(n | TRAY_KEPT);
    link_set(block, heap->kept.blocks[n]);
    heap->kept.blocks[n] = block;
    heap->kept.bytes += n << tray_layout.step_shift;
}

/* The same for a slab with a single block. */
ALWAYS_INLINE struct slab *kept_pop_run(struct heap *heap, size_t n_units) {
    struct slab *slab = heap->kept.runs[n_units];
    if (slab == NULL)
        return NULL;
    heap->kept.runs[n_units] = slab->next;
    heap->kept.bytes -= n_units << UNIT_SHIFT;
    heap->kept.n_units -= n_units;
    return slab;
}

ALWAYS_INLINE void kept_add_run(struct heap *heap, struct slab *slab) {
    slab->next = heap->kept.runs[slab->n_units];
    heap->kept.runs[slab->n_units] = slab;
    heap->kept.bytes += (size_t)slab->n_units << UNIT_SHIFT;
    heap->kept.n_units += slab->n_units;
}

/* A block of at least `n_units`, and few more, that was kept; NULL if there is none. */
void *kept_take_run(struct heap *heap, size_t n_units);

/* Give all kept blocks back to their trays and superblocks. */
void kept_give_back(struct heap *heap);

#endif
