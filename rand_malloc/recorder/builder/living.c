/* living.c - see living.h. */
#include "builder/living.h"

#include "memory.h" /* memory_map */

#include <stdlib.h> /* qsort */
#include <string.h>

enum {
    FIRST_BLOCKS = 1 << 12
};

static bool grow(struct living *living, size_t least) {
    size_t capacity = living->capacity == 0 ? FIRST_BLOCKS : living->capacity;
    while (capacity < least)
        capacity *= 2;
    struct living_block *blocks =
        living->capacity == 0 ? memory_map(capacity * sizeof *blocks)
                              : memory_grow(living->blocks, living->capacity * sizeof *blocks,
                                            capacity * sizeof *blocks);
    if (blocks == NULL)
        return false;
    living->blocks = blocks;
    living->capacity = capacity;
    return true;
}

bool living_note(struct living *living, const struct trace_event *event) {
    if (event->op > TRACE_REALLOC)
        return true;
    if (event->slot >= living->capacity && !grow(living, (size_t)event->slot + 1))
        return false;
    struct living_block *block = &living->blocks[event->slot];
    block->event = *event;
    if (event->op == TRACE_REALLOC)
        block->event.op = TRACE_MALLOC;
    block->order = living->n_noted++;
    return true;
}

static int compare_places(const void *left, const void *right) {
    const struct living_place *a = left;
    const struct living_place *b = right;
    return a->order < b->order ? -1 : a->order > b->order;
}

void living_sort(const struct living *living, struct living_place *places, size_t n_places) {
    for (size_t i = 0; i < n_places; i++)
        places[i].order = living->blocks[*places[i].slot].order;
    qsort(places, n_places, sizeof *places, compare_places);
}

void living_close(struct living *living) {
    memory_unmap(living->blocks, living->capacity * sizeof *living->blocks);
    memset(living, 0, sizeof *living);
}
