/* step_set.h - sets of the steps of a tray, and the runs of neighbours in them.
 *
 * The lowest run ends where a one that is added to its first step is carried to.
 * All sets are of N_STEPS, so there is always a step behind a run.
 */
#ifndef EXGEN_STEP_SET_H
#define EXGEN_STEP_SET_H

#include "memory/slab.h"

enum {
    N_STEPS = 112 /* of a tray; nine of them fill a superblock of 1 MiB */
};

_Static_assert(N_STEPS < 8 * sizeof(step_set), "no step may look like the last bit of a set");

static inline step_set steps(size_t from, size_t n) {
    return (((step_set)1 << n) - 1) << from;
}

/* Lowest step in the set, which is not empty. */
static inline size_t lowest(step_set s) {
    uint64_t low = (uint64_t)s;
    return low != 0 ? (size_t)__builtin_ctzll(low)
                    : 64 + (size_t)__builtin_ctzll((uint64_t)(s >> 64));
}

static inline size_t highest(step_set s) {
    uint64_t high = (uint64_t)(s >> 64);
    return high != 0 ? 127 - (size_t)__builtin_clzll(high)
                     : 63 - (size_t)__builtin_clzll((uint64_t)s);
}

/* Length of the free run around `at`, which is free. */
static inline size_t run_around(step_set free, size_t at) {
    step_set before = ~free & steps(0, at);
    size_t end = at + lowest(~free >> at);
    return before != 0 ? end - highest(before) - 1 : end;
}

/* Where a block goes, and what it leaves. */
struct fit {
    size_t at;      /* its first step */
    size_t longest; /* of the runs of free steps besides it */
};

/* The first run of at least `n` free steps, which there is; one look at each run, of which a tray
 * seldom has more than three. */
static inline struct fit first_fit(step_set free, size_t n) {
    struct fit fit = {N_STEPS, 0};
    while (free != 0) {
        size_t from = lowest(free);
        step_set carried = free + ((step_set)1 << from); /* to the step behind the run */
        size_t length = lowest(carried) - from;
        bool takes = fit.at == N_STEPS && length >= n;
        fit.at = takes ? from : fit.at;
        length -= takes ? n : 0;
        fit.longest = length > fit.longest ? length : fit.longest;
        free &= carried;
    }
    return fit;
}

/* Length of the longest run of free steps. */
static inline size_t longest_run(step_set free) {
    return first_fit(free, SIZE_MAX).longest;
}

/* Every `n`-th step, of a power of two. */
static inline step_set every(size_t n) {
    step_set s = 1;
    for (; n < N_STEPS; n *= 2)
        s |= s << n;
    return s;
}

/* The first of the steps at multiples of `n_apart` where runs of `n` free steps begin; there is
 * one. */
static inline size_t first_aligned_fit(step_set free, size_t n, size_t n_apart) {
    for (; n > 1; n--)
        free &= free >> 1;
    return lowest(free & every(n_apart));
}

#endif
