/* remote.h - blocks freed by a thread that does not own them. */
#ifndef EXGEN_REMOTE_H
#define EXGEN_REMOTE_H

#include "heap/heap.h"
#include "memory/link.h"
#include "thread/exchange.h"
#include "thread/inbox.h"

/* What frees a block is true if that was a slow path, which may be the only one of a thread that
 * frees what others allocate: the caller counts it (housekeeping.h). */

/* Free a block of another heap for which the way below is not open; `heap` is NULL or the
 * calling thread's. */
bool remote_free_slowly(struct heap *heap, void *block);

/* As many blocks of others have come to a list as it may have: let go of them. */
bool remote_shed(struct heap *heap, size_t class);

/* remote_add of a block that bears the mark of a free one, which ends the program if it is one. */
COLD bool remote_add_marked(struct heap *heap, size_t class, void *block);

/* Put a block without the mark of a free one onto the list; false if the list is too long now, and
 * remote_shed is to be called. */
ALWAYS_INLINE bool remote_push(struct foreign *list, void *block) {
    link_push(&list->free, block);
    return likely(--list->countdown >= 0);
}

ALWAYS_INLINE bool remote_add(struct heap *heap, size_t class, void *block) {
    if (unlikely(link_is_marked(block)))
        return remote_add_marked(heap, class, block);
    return !remote_push(&heap->bins[class].foreign, block) && remote_shed(heap, class);
}

/* The block that fills the batch of its class, or is the first of it. */
bool remote_send_batch(struct heap *heap, size_t class, void *block);

/* Put a block of another heap than the calling thread's into the batch of its class; false if that
 * is not all there is to do.  Calls nothing, so that there is nothing to be saved. */
ALWAYS_INLINE bool remote_collect(struct heap *heap, void *block) {
    size_t class = class_of_block((uintptr_t)block);
    struct batch *batch = likely(class < N_CLASSES_MAX) ? batch_of(heap, class) : NULL;
    if (unlikely(batch == NULL || batch->n + 1 >= batch->n_most))
        return false;
    batch->blocks[batch->n++] = block;
    return true;
}

/* Free a block of another heap than the calling thread's.  Never waits. */
ALWAYS_INLINE bool remote_free(struct heap *heap, void *block) {
    size_t class = class_of_block((uintptr_t)block);
    if (remote_collect(heap, block))
        return false;
    return class < N_CLASSES_MAX ? remote_send_batch(heap, class, block)
                                 : remote_free_slowly(heap, block);
}

/* The same, so that a list has the block at once. */
ALWAYS_INLINE bool remote_free_listed(struct heap *heap, void *block) {
    size_t class = class_of_block((uintptr_t)block);
    return unlikely(class >= N_CLASSES_MAX) ? remote_free_slowly(heap, block)
                                            : remote_add(heap, class, block);
}

/* For each slow refill: a thread that has not used others' blocks for a while tries again first
 * whether a block is its own. */
void remote_consider_unmixed_slowly(struct heap *heap);

ALWAYS_INLINE void remote_consider_unmixed(struct heap *heap) {
    if (THREADS && unlikely(local.number != local.own_number))
        remote_consider_unmixed_slowly(heap);
}

/* Others' blocks of `class` that the thread freed, onto the ready list, which is empty, but for
 * the first.  NULL if there are none, or if they are so small that two threads would go on
 * sharing a line of cache. */
void *remote_take_freed(struct heap *heap, size_t class);

/* Let go of a list of blocks of one class that are other heaps', or of all that are held
 * back because they are small. */
void remote_flush_list(struct heap *heap, size_t class, void *list);
void remote_flush(struct heap *heap);

/* Put the thread's lists back on the slabs they came from, those of other heaps too. */
void remote_return_lists(struct heap *heap, struct local *from);

/* remote_flush, unless the thread has no heap, and send everything home that is in the exchange. */
void remote_send_all_home(struct heap *sender);

/* Most blocks of the smallest size class in a batch, whatever remote_batch says. */
size_t remote_most_batch(void);

/* Send home some of what was not wanted for a while; false if there is no more for now. */
bool remote_send_idle_home(uint64_t now_ms);

/* A block of `class` that was freed for this heap, or for another one, and further ones
 * onto the ready list, which is empty.  NULL if there is none. */
void *remote_take_slowly(struct heap *heap, size_t class);
void *remote_take_anywhere_slowly(struct heap *heap, size_t class);

ALWAYS_INLINE void *remote_take(struct heap *heap, size_t class) {
    bool is_open = THREADS && __atomic_load_n(&exchange_is_open, __ATOMIC_RELAXED);
    return is_open ? remote_take_slowly(heap, class) : NULL;
}

ALWAYS_INLINE void *remote_take_anywhere(struct heap *heap, size_t class) {
    bool is_open = THREADS && __atomic_load_n(&exchange_is_open, __ATOMIC_RELAXED);
    return is_open ? remote_take_anywhere_slowly(heap, class) : NULL;
}

ALWAYS_INLINE bool remote_has_batch(const struct heap *heap, size_t class) {
    const struct batch *batch = batch_of(heap, class);
    return batch != NULL && batch->n > 0;
}

/* Nothing of what other threads freed, or of others' blocks, waits for a malloc of `class`. */
ALWAYS_INLINE bool remote_has_none(const struct heap *heap, size_t class) {
    return !THREADS ||
           (local.number == local.own_number && heap->bins[class].foreign.free == NULL &&
            !remote_has_batch(heap, class) && !inbox_has_any(heap) &&
            !__atomic_load_n(&exchange_is_open, __ATOMIC_RELAXED));
}

/* Free blocks that others sent to `heap`: a bounded number (N_INBOX more at most), or all. */
void remote_drain_slowly(struct heap *heap, size_t n_most);

ALWAYS_INLINE void remote_drain(struct heap *heap) {
    if (inbox_has_any(heap))
        remote_drain_slowly(heap, N_INBOX);
}

/* The same, but blocks of `class` come to use: one is returned, NULL if there is none, the others
 * go onto the ready list, which is empty. */
void *remote_take_sent_slowly(struct heap *heap, size_t class);

ALWAYS_INLINE void *remote_take_sent(struct heap *heap, size_t class) {
    return inbox_has_any(heap) ? remote_take_sent_slowly(heap, class) : NULL;
}

#endif
