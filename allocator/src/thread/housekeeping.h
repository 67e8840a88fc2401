/* housekeeping.h - memory given back while the program works.
 *
 * What lies below only notes that there is something to look for, and when (supply_schedule_purge);
 * the looks are made from here, on slow paths of malloc and free.
 */
#ifndef EXGEN_HOUSEKEEPING_H
#define EXGEN_HOUSEKEEPING_H

#include "heap/heap.h"

enum {
    TICKS_PER_CLOCK = 16,  /* slow paths for each time that the clock is read, a power of two */
    TICKS_PER_VISIT = 256, /* the same where the thread has nothing to look for in its own heap */
    TICKS_AT_ONCE = 128    /* of blocks taken from what is kept, for each slow path */
};

/* The rest of the next function, at every TICKS_PER_CLOCK-th call. */
void housekeeping_step(struct heap *heap);

/* Count a slow path; at some of them give back memory of the calling thread's heap whose time has
 * come. */
ALWAYS_INLINE void housekeeping_tick(struct heap *heap) {
    uint32_t n = ++heap->n_ticks;
    if (unlikely(n % TICKS_PER_CLOCK == 0) &&
        (heap->purge_ms != 0 || heap->looks || (THREADS && n % TICKS_PER_VISIT == 0)))
        housekeeping_step(heap);
}

/* Whether to take a slow path, which counts for all blocks that were taken from what is kept since
 * the last time, and looks at the clock. */
ALWAYS_INLINE bool housekeeping_counts_kept(struct heap *heap) {
    if (likely(--heap->kept.n_until_tick >= 0))
        return false;
    heap->kept.n_until_tick = TICKS_AT_ONCE - 1;
    heap->kept.n_taken += TICKS_AT_ONCE;
    heap->n_ticks = (heap->n_ticks + TICKS_AT_ONCE) / TICKS_AT_ONCE * TICKS_AT_ONCE - 1;
    return true;
}

/* After a free: the heap has fallen (heap_has_fallen).  Gives its free memory back, a part at each
 * slow path from now on, but for one that falls again and again. */
void housekeeping_fall(struct heap *heap);

/* Give back everything the heap can do without, and what others sent to it. */
void housekeeping_give_back(struct heap *heap);

#endif
