/* inbox.h - blocks on their way home: from whoever has them to the heap that owns them. */
#ifndef EXGEN_INBOX_H
#define EXGEN_INBOX_H

#include "heap/heap.h"

enum {
    N_INBOX = 64 /* most blocks that inbox_take takes at a time, so that no malloc takes long */
};

/* Send blocks to the heaps that own them.  Never waits. */
void inbox_send(void *const *blocks, size_t n);

/* Take out up to N_INBOX blocks that were sent to `heap`, which may have given some of them away
 * meanwhile; returns how many. */
size_t inbox_take(struct heap *heap, void **blocks);

/* Whether there are any. */
ALWAYS_INLINE bool inbox_has_any(const struct heap *heap) {
    return THREADS &&
           (heap->pending != NULL || __atomic_load_n(&heap->inbox, __ATOMIC_RELAXED) != NULL);
}

#endif
