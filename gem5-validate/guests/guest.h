/* What the guest programs share: their one argument, repeatable numbers, their one line of output.
 *
 * Every guest takes a scale, does work in proportion to it, and prints a checksum of what it
 * computed.  Numbers come from splitmix64 with a fixed seed, so equal scales give equal output.
 *
 * Source: G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number Generators",
 * OOPSLA 2014 (splitmix64).
 */
#ifndef GUEST_H
#define GUEST_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Next number of a sequence; any state is a good one. */
static inline uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The scale from the command line; ends the program when there is none from 1 on. */
static inline size_t read_scale(int n_arguments, char **arguments) {
    unsigned long scale = n_arguments == 2 ? strtoul(arguments[1], NULL, 10) : 0;
    if (scale == 0) {
        fprintf(stderr, "usage: %s SCALE, a number from 1 on\n", arguments[0]);
        exit(2);
    }
    return (size_t)scale;
}

/* malloc that ends the program when there is no memory. */
static inline void *need(size_t bytes) {
    void *block = malloc(bytes);
    if (block == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return block;
}

/* Print the one line of output; returns the exit status. */
static inline int finish(const char *name, uint64_t checksum) {
    return printf("%s %016" PRIx64 "\n", name, checksum) < 0 || fflush(stdout) != 0;
}

#endif
