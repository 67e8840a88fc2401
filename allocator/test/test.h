/* test.h - the few lines every test program shares.
 *
 * A program counts as failed until it reaches `return test_passed()`; EXPECT
 * ends it with the condition, the place and, if set, the seed.
 */
#ifndef EXGEN_TEST_H
#define EXGEN_TEST_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t test_seed;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected %s (seed %llu)\n", __FILE__, __LINE__, #condition,    \
                    (unsigned long long)test_seed);                                                \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline int test_passed(void) {
    printf("passed\n");
    return 0;
}

/* A small generator with a state of its own (splitmix64, Steele et al. 2014). */
static inline uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
