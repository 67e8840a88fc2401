/* visit.h - how another thread may give back memory of a heap whose thread rests.
 *
 * A thread that works on its heap beyond what its common paths do, says so between heap_enter and
 * heap_leave (which may be nested).  A visitor may work on the heap while its thread is not in
 * there, and only on what the common paths leave alone: free units, empty slabs that the bins keep,
 * trays, kept blocks.
 *
 * The owner's part is two plain stores and a load: the fence between its store and its load is the
 * visitor's, which makes every thread of the process pass one (membarrier): either the
 * visitor sees that the owner is in, or the owner sees the visitor and waits.
 * Source of the protocol: Dekker's, with the fence on one side (Dice, Huang, Yang, "Asymmetric
 * Dekker Synchronization", 2001).
 */
#ifndef EXGEN_VISIT_H
#define EXGEN_VISIT_H

#include "heap/heap.h"

/* The owner found a visitor: wait until it has gone, unless it finds the owner in. */
COLD void heap_wait_for_visitor(struct heap *heap);

enum {
    ENTRIES_INSIDE =
        255 /* in entries: how often the thread is inside; the rest counts how often it left */
};

ALWAYS_INLINE void heap_enter(struct heap *heap) {
    if (!THREADS)
        return;
    __atomic_store_n(&heap->entries, heap->entries + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (unlikely(__atomic_load_n(&heap->has_visitor, __ATOMIC_ACQUIRE)))
        heap_wait_for_visitor(heap);
}

ALWAYS_INLINE void heap_leave(struct heap *heap) {
    if (THREADS)
        __atomic_store_n(&heap->entries, heap->entries + ENTRIES_INSIDE, __ATOMIC_RELEASE);
}

/* The same for what is kept alone (kept.h), which is short: does not wait and is not nested, false
 * if there is a visitor. */
ALWAYS_INLINE bool heap_enter_kept(struct heap *heap) {
    if (!THREADS)
        return true;
    __atomic_store_n(&heap->is_at_kept, true, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (likely(!__atomic_load_n(&heap->has_visitor, __ATOMIC_ACQUIRE)))
        return true;
    __atomic_store_n(&heap->is_at_kept, false, __ATOMIC_RELEASE);
    return false;
}

ALWAYS_INLINE void heap_leave_kept(struct heap *heap) {
    if (THREADS)
        __atomic_store_n(&heap->is_at_kept, false, __ATOMIC_RELEASE);
}

/* Whether a heap has a thread, which another may visit; the thread's to say, outside of
 * heap_enter. */
void heap_set_occupied(struct heap *heap, bool is_occupied);
bool heap_is_occupied(const struct heap *heap);

enum {
    N_VISITED_MOST = 4 /* at once */
};

/* Call `work` for those of up to N_VISITED_MOST heaps that have a thread, which is not in there.
 * Returns after how many it ended, at least one: an owner that waits is not to wait for the others.
 * With the lock held. */
size_t heap_visit(struct heap *const *heaps, size_t n, void (*work)(struct heap *heap));

/* Whether an owner waits, so that the work is to end soon. */
bool heap_visitor_is_awaited(void);

/* Only one thread visits at a time.  Also for the moment of a fork.  False if another does, and the
 * caller does not want to wait. */
bool heap_visits_lock(bool waits);
void heap_visits_unlock(void);

/* In the child of a fork, which has none of the other threads. */
void heap_visits_forget_owners(void);

#endif
