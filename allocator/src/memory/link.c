/* link.c - the secret of link.h, and the walk along a list. */
#include "memory/link.h"

#include <string.h>

#include "base/options.h"
#include "system/os.h"

void link_init(void) {
    layout.link_secret = os_random();
    layout.link_zeros = ~(uintptr_t)0 << ADDRESS_BITS | (BLOCK_ALIGNMENT - 1);
}

void *link_reverse(void *first) {
    void *reversed = NULL;
    for (void *next; first != NULL; first = next) {
        next = link_follow(first);
        link_set(first, reversed);
        reversed = first;
    }
    return reversed;
}

void *link_sort(void *first, const struct slab *slab) {
    uint64_t set[LISTED_UNITS_MAX * UNIT_BYTES / BLOCK_ALIGNMENT / 64]; /* blocks by number */
    size_t n_words = (slab->carved + 63) / 64;
    memset(set, 0, n_words * sizeof *set);
    for (; first != NULL; first = link_follow(first)) {
        size_t number = (size_t)((char *)first - slab->start) / slab->block_bytes;
        if (number >= slab->carved)
            fatal("corrupted free list", first);
        set[number / 64] |= (uint64_t)1 << number % 64;
    }
    for (size_t word = n_words; word-- > 0;)
        for (uint64_t left = set[word]; left != 0;) {
            size_t bit = 63 - (size_t)__builtin_clzll(left);
            void *block = slab->start + (word * 64 + bit) * slab->block_bytes;
            left ^= (uint64_t)1 << bit;
            link_set(block, first);
            first = block;
        }
    return first;
}

bool link_has(const void *list, const void *block) {
    while (list != NULL && list != block)
        list = link_follow(list);
    return list != NULL;
}

size_t link_count(const void *first, size_t limit) {
    size_t n = 0;
    for (const void *block = first; block != NULL && n <= limit; block = link_next(block)) {
        if (!link_is_sound(block))
            return limit + 1;
        n++;
    }
    return n;
}
