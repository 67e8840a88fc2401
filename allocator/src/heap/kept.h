/* kept.h - freed blocks above the size classes, kept by length for the next request of that length
 * or little less.
 *
 * A tray merges what is freed and searches what is asked for; a superblock does both with units.
 * A block that is kept does neither, and comes to the list of its length.  What is kept does not
 * raise the peak: before a heap takes more units than it ever had in use, it is given back
 * (kept_give_back), as before a new tray or superblock if little of it was used again, and at every
 * look of the purger; KEPT_AT_ONCE at a time, so that no call takes long.
 *
 *   first[n]                     blocks of n steps on trays: in use of their tray, linked through
 *                                their first words, and marked as those of a class (see link.h)
 *   first[N_TRAY_BLOCK_MAX + n]  slabs with a single block of n units: linked through `next`, and
 *                                marked by their countdown; the block is not touched
 *
 * A program's store into a block that has left the caches waits for its line, and all stores after
 * it wait behind it: the fewer there are here, the more calls the processor has under way.
 */
#ifndef EXGEN_KEPT_H
#define EXGEN_KEPT_H

#include "heap/supply.h"

enum {
    KEPT_AT_ONCE = 16777216 /* bytes to be given back at once: of touched memory the system takes a
                               tenth of a millisecond for each MiB */
};

/* A block of a tray, with `n` steps; NULL if there is none, or if it was written into or, without
 * the mark, freed twice: kept_take_near finds out. */
ALWAYS_INLINE void *kept_pop_block(struct heap *heap, size_t n) {
    void **first = plain_address(&heap->kept.first[n]);
    void *block = *first;
    if (block == NULL)
        return NULL;
    void *next = link_next(block);
    if (unlikely(!link_is_sound(next) || !link_is_marked(block)))
        return NULL;
    *first = next;
    heap->kept.room += (ptrdiff_t)n;
    __builtin_prefetch(next);
    link_unmark(block);
    return block;
}

/* So many units in steps. */
ALWAYS_INLINE size_t kept_run_steps(size_t n) {
    return n << (UNIT_SHIFT - tray_layout.step_shift);
}

/* The slab of a block with `n` units of its own, up to N_KEPT_UNITS, which is in use again; NULL if
 * there is none. */
ALWAYS_INLINE struct slab *kept_pop_slab(struct heap *heap, size_t n) {
    void **first = plain_address(&heap->kept.first[N_TRAY_BLOCK_MAX + n]);
    struct slab *slab = *first;
    if (slab == NULL)
        return NULL;
    struct slab *next = slab->next;
    *first = next;
    heap->kept.room += (ptrdiff_t)kept_run_steps(n);
    heap->kept.n_units -= n;
    slab->countdown = -1;
    __builtin_prefetch(next);
    return slab;
}

/* Such a block, of any `n`. */
ALWAYS_INLINE void *kept_pop_run(struct heap *heap, size_t n) {
    struct slab *slab = n <= N_KEPT_UNITS ? kept_pop_slab(heap, n) : NULL;
    return slab != NULL ? slab->start : NULL;
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
    void *const *blocks = &heap->kept.first[n];
    size_t n_more = n / 4;
    unsigned empty = (unsigned)(blocks[0] == NULL) | 2U * (blocks[1] == NULL) |
                     4U * (blocks[2] == NULL) | 8U * (blocks[3] == NULL);
    size_t first = (size_t)__builtin_ctz(~empty);
    bool is_there = first <= n_more && n + first <= N_TRAY_BLOCK_MAX;
    return likely(is_there) ? kept_pop_block(heap, n + first) : NULL;
}

/* A kept block at a multiple of `alignment`, if the next one of its length lies at one; above
 * UNIT_BYTES one with units of its own. */
ALWAYS_INLINE void *kept_take_aligned(struct heap *heap, size_t bytes, size_t alignment) {
    if (alignment > UNIT_BYTES) {
        size_t n_units = ((bytes - 1) >> UNIT_SHIFT) + 1;
        void *const *runs = &heap->kept.first[N_TRAY_BLOCK_MAX];
        const struct slab *slab = n_units <= N_KEPT_UNITS ? runs[n_units] : NULL;
        bool lies_there = slab != NULL && ((uintptr_t)slab->start & (alignment - 1)) == 0;
        return lies_there ? kept_pop_run(heap, n_units) : NULL;
    }
    size_t n = tray_steps_for(bytes);
    bool is_aligned = ((uintptr_t)heap->kept.first[n] & (alignment - 1)) == 0;
    return is_aligned ? kept_pop_block(heap, n) : NULL;
}

/* As kept_take, or one that is little larger; a damaged list ends the program. */
void *kept_take_near(struct heap *heap, size_t bytes);

/* Keep a block that is freed, in the unit of `entry` of a tray; false (and nothing done) if that is
 * not all there is to do, or if no block begins there. */
ALWAYS_INLINE bool kept_add_block(struct heap *heap, const struct slab *entry, void *block) {
    size_t n = tray_length_in(entry, block);
    bool is_one = n != 0 && ((uintptr_t)block & tray_layout.step_mask) == 0;
    if (unlikely(!is_one))
        return false;
    heap->kept.room -= (ptrdiff_t)n;
    if (unlikely(heap->kept.room < 0)) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* so that it is in no register above */
        heap->kept.room += (ptrdiff_t)n;
        return false;
    }
    link_push(plain_address(&heap->kept.first[n]), block);
    return true;
}

/* The same of a slab with a single block, which was counted down; false also if it was before. */
ALWAYS_INLINE bool kept_add_run(struct heap *heap, struct slab *slab, const void *block) {
    size_t n = slab->n_units;
    bool is_one = block == slab->start && slab->countdown == COUNTDOWN_KEPT && n <= N_KEPT_UNITS;
    ptrdiff_t room = heap->kept.room - (ptrdiff_t)kept_run_steps(n);
    if (unlikely(!is_one || room < 0))
        return false;
    heap->kept.room = room;
    heap->kept.n_units += n;
    void **first = plain_address(&heap->kept.first[N_TRAY_BLOCK_MAX + n]);
    slab->next = *first;
    *first = slab;
    return true;
}

/* The same of any slab without a size class, with this `class`. */
ALWAYS_INLINE bool kept_add(struct heap *heap, struct slab *slab, const struct slab *entry,
                            uint8_t class, void *block) {
    if (class == CLASS_UNIT_RUN)
        return kept_add_run(heap, slab, block);
    slab->countdown = -1;
    return class == CLASS_TRAY && kept_add_block(heap, entry, block);
}

/* Whether the block, which lies in `slab`, is kept. */
bool kept_has(const struct heap *heap, const struct slab *slab, const void *block);

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

/* Kept blocks that their trays count as in use. */
void kept_count(const struct heap *heap, size_t *n_blocks, size_t *n_bytes);

bool kept_is_valid(const struct heap *heap);

#endif
