/* random.h - a generator of numbers for random order: splitmix64 (Steele et al. 2014).
 *
 * Seeded by the system at its first use.  Not for secrets that are shown.
 */
#ifndef EXGEN_RANDOM_H
#define EXGEN_RANDOM_H

#include "system/os.h"

/* The next number; *state is 0 before the first. */
static inline uint64_t random_next(uint64_t *state) {
    if (*state == 0)
        *state = os_random();
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
