/* quarantine.h - freed blocks that wait among others and leave in random order. */
#ifndef EXGEN_QUARANTINE_H
#define EXGEN_QUARANTINE_H

#include "heap/heap.h"

/* Hold a freed block back.  Returns the one that may go for it, or NULL. */
void *quarantine_exchange(struct heap *heap, void *block);

bool quarantine_has(const struct heap *heap, const void *block);

/* Free all blocks that `heap` holds back. */
void quarantine_flush(struct heap *heap);

#endif
