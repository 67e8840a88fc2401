/* kept.h - freed blocks above the size classes, kept by length for the next request of that length
 * or little less.
 *
 * A tray merges what is freed and searches what is asked for; a superblock does both with units.
 * A block that is kept does neither: it stays a block in use of its tray or slab, and is marked as
 * free blocks of a class are (see link.h), in the list of its length.  What is kept does not
 * raise the peak: before a heap takes more units than it ever had in use, it is given back
 * (kept_give_back), as before a new tray or superblock if little of it was used again, and at every
 * look of the purger; KEPT_AT_ONCE at a time, so that no call takes long.
 *
 *   blocks[n]                     blocks of n steps on trays
 *   blocks[N_TRAY_BLOCK_MAX + n]  blocks with n units of their own
 */
#ifndef EXGEN_KEPT_H
#define EXGEN_KEPT_H

#include "heap/supply.h"

enum {
    KEPT_AT_ONCE = 16777216 /* bytes to be given back at once: of touched memory the system takes a
                               tenth of a millisecond for each MiB */
};

/* The first block of a list, whose blocks have so many steps; NULL if there is none, or if it was
 * written into or, without the mark, freed twice: kept_take_near finds out. */
ALWAYS_INLINE void *kept_pop(struct heap *heap, size_t list, size_t n_steps) {
    void **first = plain_address(&heap->kept.blocks[list]);
    void *block = *first;
    if (block == NULL)
        return NULL;
    void *next = link_next(block);
    if (unlikely(!link_is_sound(next) || !link_is_marked(block)))
        return NULL;
    *first = next;
    heap->kept.room += (ptrdiff_t)n_steps;
    __builtin_prefetch(next);
    link_unmark(block);
    return block;
}

/* As kept_pop, of a tray, with `n` steps. */
ALWAYS_INLINE void *kept_pop_block(struct heap *heap, size_t n) {
    return kept_pop(heap, n, n);
}

/* So many units in steps. */
ALWAYS_INLINE size_t kept_run_steps(size_t n) {
    return n << (UNIT_SHIFT - tray_layout.step_shift);
}

/* The same with `n` units of its own. */
ALWAYS_INLINE void *kept_pop_run(struct heap *heap, size_t n) {
    void *block =
        n <= N_KEPT_UNITS ? kept_pop(heap, N_TRAY_BLOCK_MAX + n, kept_run_steps(n)) : NULL;
    if (block != NULL)
        heap->kept.n_units -= n;
    return block;
}

/* A block that was kept, for a request above the classes; NULL if there is none of that length, or
 * none that is sound. */
ALWAYS_INLINE void *kept_take(struct heap *heap, size_t bytes) {
    return bytes <= tray_layout.largest ? kept_pop_block(heap, tray_steps_for(bytes))
                                        : kept_pop_run(heap, ((bytes - 1) >> UNIT_SHIFT) + 1);
}

/* As kept_take_near, on trays and among the next lengths only; NULL does not say that there is
 * none. All of them are looked at, since which has a block cannot be predicted. */
ALWAYS_INLINE void *kept_take_soon(struct heap *heap, size_t bytes) {
    size_t n = tray_steps_for(bytes);
    void *const *blocks = &heap->kept.blocks[n];
    size_t n_more = n / 4;
    unsigned empty = (unsigned)(blocks[0] == NULL) | 2U * (blocks[1] == NULL) |
                     4U * (blocks[2] == NULL) | 8U * (blocks[3] == NULL);
    size_t first = (size_t)__builtin_ctz(~empty);
    bool is_there = first <= n_more && n + first <= N_TRAY_BLOCK_MAX;
    return likely(is_there) ? kept_pop_block(heap, n + first) : NULL;
}

/* A kept block of a tray at a multiple of `alignment`, if the next one of its length lies at one.
 */
ALWAYS_INLINE void *kept_take_aligned(struct heap *heap, size_t bytes, size_t alignment) {
    size_t n = tray_steps_for(bytes);
    bool is_aligned = ((uintptr_t)heap->kept.blocks[n] & (alignment - 1)) == 0;
    return is_aligned ? kept_pop_block(heap, n) : NULL;
}

/* As kept_take, or one that is little larger; a damaged list ends the program. */
void *kept_take_near(struct heap *heap, size_t bytes);

ALWAYS_INLINE bool kept_push(struct heap *heap, size_t list, size_t n_steps, void *block) {
    heap->kept.room -= (ptrdiff_t)n_steps;
    if (unlikely(heap->kept.room < 0)) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* so that it is in no register above */
        heap->kept.room += (ptrdiff_t)n_steps;
        return false;
    }
    void **first = plain_address(&heap->kept.blocks[list]);
    link_freed(block, *first);
    *first = block;
    return true;
}

ALWAYS_INLINE bool kept_add_block(struct heap *heap, const struct slab *entry, void *block) {
    size_t n = tray_length_in(entry, block);
    bool is_one = n != 0 && ((uintptr_t)block & tray_layout.step_mask) == 0;
    return likely(is_one) && kept_push(heap, n, n, block);
}

ALWAYS_INLINE bool kept_add_run(struct heap *heap, const struct slab *slab, void *block) {
    size_t n = slab->n_units;
    bool is_one = block == slab->start && n <= N_KEPT_UNITS;
    if (!is_one || !kept_push(heap, N_TRAY_BLOCK_MAX + n, kept_run_steps(n), block))
        return false;
    heap->kept.n_units += n;
    return true;
}

/* Keep a block that is freed, of a slab without a size class, with this `class`, in the unit of
 * `entry`; false (and nothing done) if that is not all there is to do, or if no block begins there.
 */
ALWAYS_INLINE bool kept_add(struct heap *heap, struct slab *slab, const struct slab *entry,
                            uint8_t class, void *block) {
    slab->countdown = -1;
    if (class == CLASS_TRAY)
        return kept_add_block(heap, entry, block);
    return class == CLASS_UNIT_RUN && kept_add_run(heap, slab, block);
}

/* Whether the block, which lies in `slab`, is kept. */
bool kept_has(const struct heap *heap, const struct slab *slab, const void *block);

/* Whether it is the last of its length that was kept. */
bool kept_was_last(const struct heap *heap, const struct slab *slab, const void *block);

/* The same with all there is to do; false if the heap may not keep more, or if no block begins
 * there. */
bool kept_add_slowly(struct heap *heap, struct slab *slab, void *block);

/* Whether few of the blocks were used again since all were given back: less than what is kept, if a
 * block has one unit. */
ALWAYS_INLINE bool kept_is_stale(const struct heap *heap) {
    int64_t n_taken = heap->kept.n_taken - heap->kept.n_until_tick;
    return n_taken < (int64_t)(kept_bytes(heap) >> UNIT_SHIFT);
}

/* Give a kept block of more than `n` steps back to its tray, where its steps are free then; false
 * if there is none. */
bool kept_give_back_larger(struct heap *heap, size_t n);

/* Give kept blocks of so many bytes, or all, back to their trays and superblocks. */
void kept_give_back(struct heap *heap, size_t bytes);

/* Kept blocks, which their trays and slabs count as in use. */
void kept_count(const struct heap *heap, size_t *n_blocks, size_t *n_bytes);

bool kept_is_valid(const struct heap *heap);

#endif
