/* living.h - the blocks that live when a trace begins later than its recording.
 *
 * Until then the builder writes nothing, but keeps of each slot the allocation that filled it
 * last.  At the beginning those whose slot is still in use are written in the order in which
 * they were made: a trace of a forked child, or of a window, begins with its heap and not with
 * all that led to it.  What free blocks lay between them is not known to such a trace.
 */
#ifndef MALLOC_TUNER_RECORDER_LIVING_H
#define MALLOC_TUNER_RECORDER_LIVING_H

#include "trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct living_block {
    struct trace_event event; /* the last allocation or realloc into the slot */
    uint64_t order;           /* of all of them */
};

struct living {
    struct living_block *blocks; /* [capacity] by slot */
    size_t capacity;
    uint64_t n_noted;
};

/* Where the number of a slot in use is kept, and when its block was made. */
struct living_place {
    uint64_t order;
    uint32_t *slot;
};

/* Notes an event; false: no memory.  Only allocations and reallocs matter. */
bool living_note(struct living *living, const struct trace_event *event);

/* Sorts places by the age of their blocks, the oldest first. */
void living_sort(const struct living *living, struct living_place *places, size_t n_places);

void living_close(struct living *living);

#endif
