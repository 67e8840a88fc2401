/* tray.h - slabs of blocks of any size, for what is too large to have a class.
 *
 * Blocks above small_max, up to tray_max, are cut from a tray in steps of
 * tray_step bytes and merge with their free neighbours when they are
 * freed, so what one size leaves behind serves all others.  A tray has N_STEPS
 * steps; all that describes it lies in the table entries of its units:
 *
 *   slab[0]     n_units, class, lists as for every slab; block_bytes == tray_step;
 *               capacity == the longest run of free steps, or N_TRAY_LISTS - 1;
 *               carved == steps in use; slab_used == blocks in use, all asleep: every free is an
 *               event
 *   slab[1]     the set of free steps, and of those that hold what was written into them
 *   slab[2]     the set of those that did so at the last look of the purger
 *   slab[i]     for each step of unit i the number of steps of the block that begins there, or
 *               0; those of units 0 and 1, where there is no room, in slab[3] and slab[4]
 *
 * The last is what other threads may read of a block that is theirs.
 */
#ifndef EXGEN_TRAY_H
#define EXGEN_TRAY_H

#include "heap/heap.h"

enum {
    N_STEPS = 112,        /* of a tray; nine of them fill a superblock of 1 MiB */
    N_TRAY_BLOCK_MAX = 32 /* steps of the largest block */
};

/* Constants of this run, written once by tray_init. */
struct tray_layout {
    unsigned step_shift; /* log2(tray_step) */
    size_t n_units;      /* of a tray; 0: there are none */
    size_t largest;      /* bytes of the largest request that goes into one, or 0 */
};

extern HIDDEN struct tray_layout tray_layout;

void tray_init(void);

/* A block of `bytes`, up to tray_largest, at a multiple of `alignment`, up to UNIT_BYTES.
 * NULL if out of memory. */
void *tray_allocate(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero);

/* Free a block of `slab`, which is a tray of the heap; ends the program if none begins there. */
void tray_free(struct heap *heap, struct slab *slab, void *block);

/* Make the block `bytes` large where it is; false if it must move. */
bool tray_resize(struct heap *heap, struct slab *slab, void *block, size_t bytes);

/* Bytes of the block that begins at `block`; 0 if none does.  For any thread that has the block. */
size_t tray_block_bytes(const struct slab *slab, const void *block);

/* End the program unless a block begins at `block`. */
void tray_check(const struct slab *slab, const void *block);

/* Give free memory of all trays of a superblock back. */
void tray_purge(struct superblock *sb);

/* A look at the heap's trays for what has aged: its start, and a step of it; false if there
 * was nothing left to do. */
void tray_look_begin(struct heap *heap);
bool tray_look_step(struct heap *heap);

/* Give back empty trays. */
void tray_trim(struct heap *heap);

/* Add a tray that was another heap's, or remove one. */
void tray_link(struct heap *heap, struct slab *slab);
void tray_unlink(struct heap *heap, struct slab *slab);

/* One tray, or the heap's lists of them. */
bool tray_is_valid(const struct slab *slab);
bool trays_are_valid(const struct heap *heap);

#endif
