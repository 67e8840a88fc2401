/* purge.h - looks at a heap for memory that has been free for long enough. */
#ifndef EXGEN_PURGE_H
#define EXGEN_PURGE_H

#include "heap/heap.h"

/* What a look may leave alone. */
enum hold {
    HOLD_NOTHING,
    HOLD_UNITS, /* free ones */
    HOLD_ALL    /* trays, kept blocks and empty slabs, too */
};

/* A look at all trays and superblocks: free memory that was so at the last look goes back to
 * the system.  In steps, while heap->looks, so that no malloc takes long, or as a whole.  Some
 * looks at a heap near its highest point leave up to `most` alone.  Sets the time of the next look.
 */
void purge_begin(struct heap *heap, uint64_t now_ms, enum hold most);
void purge_step(struct heap *heap);
void purge_whole(struct heap *heap, uint64_t now_ms);

#endif
