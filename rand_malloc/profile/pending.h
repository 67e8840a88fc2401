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

struct pending { /* often of one entry, for which the functions below need no call */
    struct pending_entry *entries;
    size_t n;
    size_t capacity;
    uint32_t sequence;
};

int pending_push_behind(struct pending *pending, uint64_t key, uint32_t slot);
uint32_t pending_pop_several(struct pending *pending);

/* False when memory is short. */
static inline int pending_push(struct pending *pending, uint64_t key, uint32_t slot) {
    if (pending->n > 0 || pending->capacity == 0)
        return pending_push_behind(pending, key, slot);
    pending->entries[0] = (struct pending_entry){key, pending->sequence++, slot};
    pending->n = 1;
    return 1;
}

/* Removes and returns the slot of the first entry; n must be above 0. */
static inline uint32_t pending_pop(struct pending *pending) {
    if (pending->n > 1)
        return pending_pop_several(pending);
    pending->n = 0;
    return pending->entries[0].slot;
}

void pending_release(struct pending *pending);

#endif
