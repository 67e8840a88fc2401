/* large_kept.h - the large blocks that are kept, and the shortest of them that is long enough.
 *
 * Each has a place, and at the place a key: its length, with the place in the lowest bits.  A
 * search goes over all keys without a branch that depends on lengths, which cannot be predicted;
 * the least difference has the place in it.  One key at a time: to read several at once that were
 * just written, a processor waits until they are in its cache, behind what the program wrote
 * before into memory that is in none.
 */
#ifndef EXGEN_LARGE_KEPT_H
#define EXGEN_LARGE_KEPT_H

#include "memory/large_table.h"

enum {
    N_KEPT_MAX = 64,                                /* high end of large_cache_count */
    N_PLACES = N_KEPT_MAX + 2 * LARGE_AT_ONCE_MOST, /* before hold_limits, an even number */
    PLACE_BITS = 7,
    LENGTH_SHIFT = 12,                         /* lengths are of whole pages, at least these */
    LENGTH_MOST = (1 << (31 - PLACE_BITS)) - 1 /* in a key, of all blocks that are as long */
};

struct large_kept {
    size_t n; /* atomic */
    size_t bytes;
    uint32_t keys[N_PLACES]; /* 0 where nothing is kept */
    struct large_block *blocks[N_PLACES];
};

ALWAYS_INLINE uint32_t large_key(size_t bytes, size_t place) {
    size_t length = bytes >> LENGTH_SHIFT;
    return (uint32_t)((length < LENGTH_MOST ? length : LENGTH_MOST) << PLACE_BITS | place);
}

/* Let a kept block have a place, or the key there that its length wants. */
ALWAYS_INLINE void large_kept_put(struct large_kept *kept, struct large_block *b, size_t place) {
    b->state = LARGE_KEPT;
    b->place = (uint32_t)place;
    kept->blocks[place] = b;
    kept->keys[place] = large_key(b->bytes, place);
}

ALWAYS_INLINE void large_kept_add(struct large_kept *kept, struct large_block *b) {
    large_kept_put(kept, b, kept->n);
    __atomic_store_n(&kept->n, kept->n + 1, __ATOMIC_RELAXED);
}

/* The last one gets the place that is free then. */
static NOINLINE void large_kept_remove(struct large_kept *kept, struct large_block *b) {
    size_t last = kept->n - 1;
    __atomic_store_n(&kept->n, last, __ATOMIC_RELAXED);
    large_kept_put(kept, kept->blocks[last], b->place);
    kept->keys[last] = 0;
    b->state = LARGE_IN_USE;
}

/* The shortest that has `bytes`, fewer than LENGTH_MOST; NULL if none has. */
ALWAYS_INLINE struct large_block *large_kept_best(const struct large_kept *kept, size_t bytes) {
    enum {
        KEY_BITS = 31 /* a difference has one more if the block is too short */
    };
    uint32_t wanted = large_key(bytes, 0);
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < kept->n; i += 2) {
        uint32_t over = kept->keys[i] - wanted;
        uint32_t over_next = kept->keys[i + 1] - wanted;
        over = over_next < over ? over_next : over;
        least = over < least ? over : least;
    }
    size_t place = least & ((1u << PLACE_BITS) - 1);
    return least >> KEY_BITS == 0 ? kept->blocks[place] : NULL;
}

#endif
