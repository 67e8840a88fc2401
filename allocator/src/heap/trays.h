/* trays.h - the trays of a heap, sorted by the room in them. */
#ifndef EXGEN_TRAYS_H
#define EXGEN_TRAYS_H

#include "heap/heap.h"
#include "memory/tray.h"

/* A block of `bytes`, up to tray_layout.largest, at a multiple of `alignment`, up to UNIT_BYTES.
 * NULL if no tray has room. */
void *trays_allocate(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero);

/* Make tray_layout.n_units units, which have no class yet, a tray of the heap. */
void trays_add(struct heap *heap, struct slab *units);

/* Free a block of `slab`, which is a tray of the heap; ends the program if none begins there. */
void trays_free(struct heap *heap, struct slab *slab, void *block);

/* Give a block back to its tray that was kept. */
void trays_give_back(struct heap *heap, void *block);

/* Make the block `bytes` large where it is; false if it must move. */
bool trays_resize(struct heap *heap, struct slab *slab, void *block, size_t bytes);

/* A look at the heap's trays for what has aged: its start, or that of a look at none, and a step of
 * it; false if there was nothing left to do. */
void trays_look_begin(struct heap *heap);
void trays_look_none(struct heap *heap);
bool trays_look_step(struct heap *heap);

/* Give back empty trays. */
void trays_trim(struct heap *heap);

/* Add a tray that was another heap's, or remove one. */
void trays_link(struct heap *heap, struct slab *slab);
void trays_unlink(struct heap *heap, struct slab *slab);

bool trays_are_valid(const struct heap *heap);

#endif
