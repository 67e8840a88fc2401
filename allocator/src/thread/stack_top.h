/* stack_top.h - the word that a stack of the exchange is: a segment's number and a count of
 * changes.
 *
 * The count is the upper bits and grows by one with every change, so that a thread that slept
 * before its compare-and-swap sees that the top it knew went away and came back.
 */
#ifndef EXGEN_STACK_TOP_H
#define EXGEN_STACK_TOP_H

#include <stdint.h>

enum {
    NUMBER_BITS = 24
};

static inline uint32_t number_in(uint64_t top) {
    return (uint32_t)top & ((UINT32_C(1) << NUMBER_BITS) - 1);
}

/* The word after a change that puts `number` on top. */
static inline uint64_t changed(uint64_t top, uint32_t number) {
    return ((top >> NUMBER_BITS) + 1) << NUMBER_BITS | number;
}

#endif
