/* housekeeping.h - memory given back while the program works.
 *
 * What lies below only notes that there is something to look for, and when (supply_schedule_purge);
 * the looks are made from here, on slow paths of malloc.
 */
#ifndef EXGEN_HOUSEKEEPING_H
#define EXGEN_HOUSEKEEPING_H

#include "heap/heap.h"

enum {
    TICKS_PER_CLOCK = 16, /* slow paths for each time that the clock is read, a power of two */
    TICKS_PER_VISIT = 256 /* the same where the thread has nothing to look for in its own heap */
};

/* The rest of the next function, at every TICKS_PER_CLOCK-th call. */
void housekeeping_step(struct heap *heap);

/* Whether this slow path should give back memory of the calling thread's heap whose time has come;
 * if not, it counts. */
ALWAYS_INLINE bool housekeeping_is_due(struct heap *heap) {
    uint32_t n = heap->n_ticks + 1;
    if (unlikely(n % TICKS_PER_CLOCK == 0) &&
        (heap->purge_ms != 0 || heap->looks || (THREADS && n % TICKS_PER_VISIT == 0)))
        return true;
    heap->n_ticks = n;
    return false;
}

ALWAYS_INLINE void housekeeping_tick(struct heap *heap) {
    if (housekeeping_is_due(heap)) {
        heap->n_ticks++;
        housekeeping_step(heap);
    }
}

/* After a free: the heap has fallen (heap_has_fallen).  Gives its free memory back, but for one
 * that falls again and again. */
void housekeeping_fall(struct heap *heap);

/* Give back everything the heap can do without, and what others sent to it. */
void housekeeping_give_back(struct heap *heap);

#endif
