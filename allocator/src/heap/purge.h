/* purge.h - looks at a heap for memory that has been free for long enough. */
#ifndef EXGEN_PURGE_H
#define EXGEN_PURGE_H

#include "heap/heap.h"

/* A look at all trays and superblocks: free memory that was so at the last look goes back to
 * the system.  In steps, while heap->looks, so that no malloc takes long, or as a whole.  With
 * `may_hold` it may be left out for the units of a heap near its highest point.  Sets the
 * time of the next look. */
void purge_begin(struct heap *heap, uint64_t now_ms, bool may_hold);
void purge_step(struct heap *heap);
void purge_whole(struct heap *heap, uint64_t now_ms);

#endif
