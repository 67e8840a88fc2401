/* remote.h - blocks freed by a thread that does not own them. */
#ifndef EXGEN_REMOTE_H
#define EXGEN_REMOTE_H

#include "heap.h"

/* Send a block to the heap that owns it; `sender` is NULL or the calling
 * thread's heap.  Never waits. */
void remote_free(struct heap *sender, void *block);

/* Send everything that `sender` still holds back. */
void remote_flush(struct heap *sender);

/* Free blocks that others sent to `heap`: a bounded number, or all. */
void remote_drain_slowly(struct heap *heap, size_t n_most);

enum {
    N_DRAINED = 256 /* blocks at a time, so that no malloc takes long */
};

ALWAYS_INLINE void remote_drain(struct heap *heap) {
    if (THREADS &&
        (heap->pending != NULL || __atomic_load_n(&heap->inbox, __ATOMIC_RELAXED) != NULL))
        remote_drain_slowly(heap, N_DRAINED);
}

#endif
