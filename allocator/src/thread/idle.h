/* idle.h - what threads that rest hold, given back by one that works. */
#ifndef EXGEN_IDLE_H
#define EXGEN_IDLE_H

#include "heap/heap.h"

/* Give back what heaps hold whose threads did nothing but common paths for purge_delay.  Looks at a
 * bounded number of heaps, goes on there the next time, and waits for nobody. */
void idle_give_back(const struct heap *own, uint64_t now_ms);

/* The same for all heaps. */
void idle_give_back_every(uint64_t now_ms);

/* The same at once, and for all heaps but `own` whose threads are not in the allocator. */
void idle_give_back_all(const struct heap *own);

#endif
