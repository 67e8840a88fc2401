/* unit_set.h - sets of the units of a superblock, as bits. */
#ifndef EXGEN_UNIT_SET_H
#define EXGEN_UNIT_SET_H

#include "memory/layout.h"

enum {
    N_UNIT_WORDS = N_UNITS_MAX / 64
};

struct unit_set {
    uint64_t word[N_UNIT_WORDS];
};

static inline bool set_has(const struct unit_set *s, size_t i) {
    return s->word[i / 64] >> (i % 64) & 1;
}

static inline uint64_t bits(size_t from, size_t n) {
    return (n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) << from;
}

static inline void set_add(struct unit_set *s, size_t at, size_t n) {
    while (n > 0) {
        size_t part = 64 - at % 64 < n ? 64 - at % 64 : n;
        s->word[at / 64] |= bits(at % 64, part);
        at += part;
        n -= part;
    }
}

/* Remove units; returns how many of them were in the set. */
static inline size_t set_remove(struct unit_set *s, size_t at, size_t n) {
    size_t n_removed = 0;
    while (n > 0) {
        size_t part = 64 - at % 64 < n ? 64 - at % 64 : n;
        uint64_t all = bits(at % 64, part);
        uint64_t b = s->word[at / 64] & all;
        /* All or none is what mostly happens, and counting bits is slow on old processors. */
        n_removed += b == all ? part : b == 0 ? 0 : (size_t)__builtin_popcountll(b);
        s->word[at / 64] ^= b;
        at += part;
        n -= part;
    }
    return n_removed;
}

static inline size_t set_count(const struct unit_set *s, size_t at, size_t n) {
    size_t count = 0;
    for (size_t i = at; i < at + n; i++)
        count += set_has(s, i);
    return count;
}

/* First unit in [at, end) that is in the set (inside) or not in it; end if none. */
static inline size_t set_next(const struct unit_set *s, size_t at, size_t end, bool inside) {
    while (at < end) {
        uint64_t w = inside ? s->word[at / 64] : ~s->word[at / 64];
        w >>= at % 64;
        if (w != 0) {
            size_t found = at + (size_t)__builtin_ctzll(w);
            return found < end ? found : end;
        }
        at = (at / 64 + 1) * 64;
    }
    return end;
}

/* First unit of the run inside the set that ends before `at`; `at` if there is none. */
static inline size_t set_run_start(const struct unit_set *s, size_t at) {
    while (at > 0) {
        size_t last = at - 1;
        uint64_t w = ~s->word[last / 64] << (63 - last % 64);
        if (w != 0)
            return at - (size_t)__builtin_clzll(w);
        at = last / 64 * 64;
    }
    return 0;
}

#endif
