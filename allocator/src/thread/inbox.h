/* inbox.h - blocks on their way home: from whoever has them to the heap that owns them. */
#ifndef EXGEN_INBOX_H
#define EXGEN_INBOX_H

#include "heap/heap.h"

enum {
    N_INBOX = 64, /* most blocks that inbox_take takes at a time, so that no malloc takes long */
    N_RUNS_BESIDE = 2 /* ... of those above the classes, where others are wanted */
};

/* Send blocks of size classes, or one above them, to the heaps that own them.  Never waits. */
void inbox_send(void *const *blocks, size_t n);

/* Take out up to N_INBOX blocks that were sent to `heap`, which may have given some of them away
 * meanwhile: up to `n_runs` above the classes, then others; returns how many. */
size_t inbox_take(struct heap *heap, void **blocks, size_t n_runs);

/* Whether there are any. */
ALWAYS_INLINE bool inbox_has_any(const struct heap *heap) {
    return THREADS &&
           (heap->pending != NULL || __atomic_load_n(&heap->inbox, __ATOMIC_RELAXED) != NULL ||
            heap->pending_runs != NULL ||
            __atomic_load_n(&heap->inbox_runs, __ATOMIC_RELAXED) != NULL);
}

#endif
