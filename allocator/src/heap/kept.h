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

#include "heap/supply.h"

/* A block of a tray that was kept for `n` steps; NULL if there is none. */
ALWAYS_INLINE void *kept_take_block(struct heap *heap, size_t n) {
    void *block = heap->kept.blocks[n];
    if (block == NULL)
        return NULL;
    heap->kept.blocks[n] = link_follow(block);
    __builtin_prefetch(heap->kept.blocks[n]);
    heap->kept.bytes -= n << tray_layout.step_shift;
    uint8_t *length = tray_length_of(block);
    if (unlikely(*length != (n | TRAY_KEPT)))
        fatal("corrupted free list", block);
    *length = (uint8_t)n;
    return block;
}

ALWAYS_INLINE bool kept_add_block(struct heap *heap, struct slab *slab, void *block) {
    slab->countdown = -1;
    uint8_t *length = tray_length_of(block);
    size_t n = *length;
    bool is_one = n - 1 < N_TRAY_BLOCK_MAX && ((uintptr_t)block & tray_layout.step_mask) == 0;
    size_t more_bytes = n << tray_layout.step_shift;
    size_t bytes = heap->kept.bytes + more_bytes;
    if (unlikely(!is_one || bytes > heap->kept.limit))
        return false;
    heap->kept.bytes = bytes;
    heap->kept.added_bytes += more_bytes;
    link_set(block, heap->kept.blocks[n]);
    heap->kept.blocks[n] = block;
    *length = (uint8_t)(n | TRAY_KEPT); /* last: may be any memory to the compiler */
    return true;
}

/* The same for units with a single block. */
ALWAYS_INLINE struct slab *kept_pop_run(struct heap *heap, size_t n_units) {
    struct slab *slab = heap->kept.runs[n_units];
    if (slab == NULL)
        return NULL;
    heap->kept.runs[n_units] = slab->next;
    heap->kept.bytes -= n_units << UNIT_SHIFT;
    heap->kept.n_units -= n_units;
    return slab;
}

ALWAYS_INLINE void *kept_take_run(struct heap *heap, size_t n_units) {
    struct slab *slab = n_units <= N_KEPT_UNITS ? kept_pop_run(heap, n_units) : NULL;
    if (slab == NULL)
        return NULL;
    slab->free = NULL;
    slab_set_used(slab, 1, 1);
    hand_out(slab->start);
    return slab->start;
}

ALWAYS_INLINE bool kept_add_run(struct heap *heap, struct slab *slab, void *block) {
    size_t n = slab->n_units;
    bool is_one = slab->class == CLASS_UNIT_RUN && slab->countdown == -1 && block == slab->start;
    size_t bytes = heap->kept.bytes + (n << UNIT_SHIFT);
    if (unlikely(!is_one || n > N_KEPT_UNITS || bytes > heap->kept.limit))
        return false;
    link_freed(block, NULL);
    slab->free = block;
    slab->next = heap->kept.runs[n];
    heap->kept.runs[n] = slab;
    heap->kept.bytes = bytes;
    heap->kept.added_bytes += n << UNIT_SHIFT;
    heap->kept.n_units += n;
    return true;
}

/* A block that was kept, for a request above the classes; NULL if there is none of that length. */
ALWAYS_INLINE void *kept_take(struct heap *heap, size_t bytes) {
    return bytes <= tray_layout.largest ? kept_take_block(heap, tray_steps_for(bytes))
                                        : kept_take_run(heap, ((bytes - 1) >> UNIT_SHIFT) + 1);
}

/* The same, or one that is little larger. */
void *kept_take_near(struct heap *heap, size_t bytes);

/* Keep a block that is freed, of a slab without a size class, with this `class`; false (and nothing
 * done) if that is not all there is to do, or if no block begins there. */
ALWAYS_INLINE bool kept_add(struct heap *heap, struct slab *slab, uint8_t class, void *block) {
    return class == CLASS_TRAY ? kept_add_block(heap, slab, block)
                               : kept_add_run(heap, slab, block);
}

/* The same with all there is to do; false if it has a size class, if the heap may not keep more,
 * or if no block begins there. */
bool kept_add_slowly(struct heap *heap, struct slab *slab, void *block);

/* Whether less than what is kept was taken out of the lists since all was given back. */
ALWAYS_INLINE bool kept_is_stale(const struct heap *heap) {
    return heap->kept.bytes > 0 && heap->kept.added_bytes - heap->kept.bytes < heap->kept.bytes;
}

/* Give a kept block of more than `n` steps back to its tray, where its steps are free then; false
 * if there is none. */
bool kept_give_back_larger(struct heap *heap, size_t n);

/* Give all kept blocks back to their trays and superblocks. */
void kept_give_back(struct heap *heap);

bool kept_is_valid(const struct heap *heap);

#endif
