/* random.h - a small repeatable generator: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014),
 * whose constants are theirs; ranges by multiplication (Lemire, TOMACS 29(1), 2019), the
 * bias of at most 2^-32 accepted. */
#ifndef RAND_MALLOC_PROFILE_RANDOM_H
#define RAND_MALLOC_PROFILE_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in 0 .. n - 1; n from 1 to 2^32. */
static inline uint64_t random_below(uint64_t *state, uint64_t n) {
    return ((random_next(state) >> 32) * n) >> 32;
}

/* The same, but nothing is drawn where n is 1: without a branch, which would be taken at
 * random. */
static inline uint64_t random_choice(uint64_t *state, uint64_t n) {
    uint64_t next = *state;
    uint64_t choice = random_below(&next, n);
    *state = n > 1 ? next : *state;
    return choice;
}

#endif
