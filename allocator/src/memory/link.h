/* link.h - how free blocks are linked: through their first words, encoded.
 *
 * A link is the address of the next block XOR a secret number of the process.
 * What a program writes into a free block by mistake or malice thus does
 * not decode to an address of its choosing, and most likely to none: the bits
 * that are zero in every block's address must be zero.  A list's head is
 * tested for that before it is used, in the same place where its end is.
 *
 * The second word of a block on a list is the secret number itself, the mark, which goes when the
 * block is handed out.  A free that finds the mark looks for the block in the lists: only there
 * it is certain that it was freed before, since a program may have copied the word.
 *
 * Guarantee: an overwritten link is noticed before anything is read or written
 * through it, but for one in 2^(64 - ADDRESS_BITS + 4) if the whole word was
 * overwritten, one in 16 if only its lowest byte was.  Limits: the block
 * that carries the link has been handed out by then; an attacker who can read links
 * and knows the addresses behind them can compute the number.
 */
#ifndef EXGEN_LINK_H
#define EXGEN_LINK_H

#include "memory/slab.h"

/* Whether this may be the address of a block, if it is not NULL; damaged links
 * decode to values that may not. */
ALWAYS_INLINE bool link_is_sound(const void *block) {
    return ((uintptr_t)block & layout.link_zeros) == 0;
}

/* The next block; only sound if the link was not overwritten. */
ALWAYS_INLINE void *link_next(const void *block) {
    return (void *)(*(const uintptr_t *)block ^ layout.link_secret);
}

ALWAYS_INLINE void link_set(void *block, const void *next) {
    *(uintptr_t *)block = (uintptr_t)next ^ layout.link_secret;
}

/* Put a block that is freed onto a list, and mark it. */
ALWAYS_INLINE void link_push(void **list, void *block) {
    uintptr_t *words = block;
    uintptr_t secret = layout.link_secret;
    __atomic_store_n(&words[1], secret, __ATOMIC_RELAXED); /* as link_mark */
    __asm__ volatile("" ::: "memory"); /* a store of both at once takes more instructions */
    words[0] = (uintptr_t)*list ^ secret;
    *list = block;
}

ALWAYS_INLINE bool link_is_marked(const void *block) {
    return ((const uintptr_t *)block)[1] == layout.link_secret;
}

/* Atomic, as the next: with secure, where the last word of a block says whether it was written
 * behind, a free of the block behind it looks. */
ALWAYS_INLINE void link_mark(void *block) {
    __atomic_store_n(&((uintptr_t *)block)[1], layout.link_secret, __ATOMIC_RELAXED);
}

/* Take the mark off a block that is handed out. */
ALWAYS_INLINE void link_unmark(void *block) {
    __atomic_store_n(&((uintptr_t *)block)[1], 0, __ATOMIC_RELAXED);
}

/* Whether a list has the block.  A damaged link ends the program. */
bool link_has(const void *list, const void *block);

/* As link_next, for slow paths: a damaged link ends the program. */
ALWAYS_INLINE void *link_follow(const void *block) {
    void *next = link_next(block);
    if (unlikely(!link_is_sound(next)))
        fatal("corrupted free list", block);
    return next;
}

/* The same blocks, the last one first.  A damaged link ends the program. */
void *link_reverse(void *first);

/* The same blocks by their addresses; all are blocks of `slab`. */
void *link_sort(void *first, const struct slab *slab);

/* Length of a list; more than `limit` if it is longer or damaged. */
size_t link_count(const void *first, size_t limit);

/* Choose the number of this process; before the first block. */
void link_init(void);

#endif
