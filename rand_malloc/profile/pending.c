/* pending.c - see pending.h. */
#include "pending.h"

#include "memory.h"

enum {
    INITIAL_ENTRIES = 4096
};

static int is_before(const struct pending_entry *a, const struct pending_entry *b) {
    return a->key < b->key || (a->key == b->key && (int32_t)(a->sequence - b->sequence) < 0);
}

static int grow(struct pending *pending) {
    size_t capacity = pending->capacity > 0 ? 2 * pending->capacity : INITIAL_ENTRIES;
    struct pending_entry *entries = memory_grow(
        pending->entries, pending->capacity * sizeof *entries, capacity * sizeof *entries);
    if (entries == NULL)
        return 0;
    pending->entries = entries;
    pending->capacity = capacity;
    return 1;
}

int pending_push_behind(struct pending *pending, uint64_t key, uint32_t slot) {
    struct pending_entry entry = {.key = key, .sequence = pending->sequence++, .slot = slot};
    if (pending->n == pending->capacity && !grow(pending))
        return 0;
    size_t at = pending->n++;
    while (at > 0 && is_before(&entry, &pending->entries[(at - 1) / 2])) {
        pending->entries[at] = pending->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    pending->entries[at] = entry;
    return 1;
}

/* Moves the hole down to a leaf and the last entry up from there: it belongs near the leaves,
 * so comparing it on the way down would be in vain (Wegener, TCS 118(1), 1993). */
uint32_t pending_pop_several(struct pending *pending) {
    struct pending_entry *entries = pending->entries;
    uint32_t slot = entries[0].slot;
    struct pending_entry last = entries[--pending->n];
    size_t at = 0;
    for (size_t child = 1; child < pending->n; child = 2 * at + 1) {
        if (child + 1 < pending->n)
            child += (size_t)is_before(&entries[child + 1], &entries[child]);
        entries[at] = entries[child];
        at = child;
    }
    for (; at > 0 && is_before(&last, &entries[(at - 1) / 2]); at = (at - 1) / 2)
        entries[at] = entries[(at - 1) / 2];
    entries[at] = last;
    return slot;
}

void pending_release(struct pending *pending) {
    memory_unmap(pending->entries, pending->capacity * sizeof *pending->entries);
    *pending = (struct pending){.n = 0};
}
