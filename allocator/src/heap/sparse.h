/* sparse.h - slabs with few blocks in use give back the pages between these. */
#ifndef EXGEN_SPARSE_H
#define EXGEN_SPARSE_H

#include "heap/heap.h"

/* Before the heap takes memory from the system: look at some superblocks, in turn. */
void sparse_make_room(struct heap *heap);

/* A step of a look of the purger; false after the last one. */
bool sparse_look_step(struct heap *heap);

/* Look at all of them, and at those used lately. */
void sparse_give_back(struct heap *heap);

#endif
