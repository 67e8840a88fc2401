/* pending.h - steps that wait for their due moment: a binary min-heap.
 *
 * Entries with equal keys leave in the order in which they came, so the order never
 * depends on the shape of the heap.
 */
#ifndef RAND_MALLOC_PROFILE_PENDING_H
#define RAND_MALLOC_PROFILE_PENDING_H

#include <stddef.h>
#include <stdint.h>

struct pending_entry {
    uint64_t key;      /* due moment; the smallest leaves first */
    uint32_t sequence; /* given by pending_push */
    uint32_t slot;
};

struct pending {
    struct pending_entry *entries;
    size_t n;
    size_t capacity;
    uint32_t sequence;
};

/* False when memory is short. */
int pending_push(struct pending *pending, uint64_t key, uint32_t slot);

/* Removes and returns the slot of the first entry; n must be above 0. */
uint32_t pending_pop(struct pending *pending);

void pending_release(struct pending *pending);

#endif
