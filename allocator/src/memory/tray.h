/* tray.h - a slab of blocks of any size, for what is too large to have a class.
 *
 * Blocks above small_max, up to tray_max, are cut from a tray in steps of
 * tray_step bytes and merge with their free neighbours when they are
 * freed, so what one size leaves behind serves all others.  A tray has N_STEPS
 * steps; all that describes it lies in the table entries of its units:
 *
 *   slab[0]     n_units, class as for every slab; block_bytes == tray_step;
 *               capacity == the longest run of free steps, or N_TRAY_LISTS - 1;
 *               carved == steps in use; slab_used == blocks in use, all asleep: every free is an
 *               event
 *   slab[1]     the set of free steps, and of those that hold what was written into them
 *   slab[2]     the set of those that did so at the last look of the purger; neighbours in the list
 *   slab[i]     for each step of unit i the number of steps of the block that begins there, or
 *               0, at the same place in all entries: free need not know which unit it is
 *
 * The last is what other threads may read of a block that is theirs.
 */
#ifndef EXGEN_TRAY_H
#define EXGEN_TRAY_H

#include "memory/size_class.h"
#include "memory/step_set.h"
#include "memory/superblock.h"

enum {
    N_TRAY_BLOCK_MAX = 32, /* steps of the largest block */
    N_TRAY_LISTS = 64      /* by the longest run of free steps; the last: this much or more */
};

/* Constants of this run, written once by tray_init. */
struct tray_layout {
    unsigned step_shift; /* log2(tray_step) */
    uint32_t step_mask;  /* tray_step - 1 */
    size_t n_units;      /* of a tray; 0: there are none */
    size_t largest;      /* bytes of the largest request that goes into one, or 0 */
};

extern HIDDEN struct tray_layout tray_layout;

void tray_init(void);

/* In the entry of the unit where the step lies, which every free has read. */
ALWAYS_INLINE uint8_t *tray_length_at(struct slab *slab, size_t step) {
    unsigned shift = UNIT_SHIFT - tray_layout.step_shift;
    return &slab[step >> shift].lengths[step & (((size_t)1 << shift) - 1)];
}

ALWAYS_INLINE size_t tray_step_bytes(void) {
    return (size_t)1 << tray_layout.step_shift;
}

ALWAYS_INLINE size_t tray_steps_for(size_t bytes) {
    return (bytes + tray_layout.step_mask) >> tray_layout.step_shift;
}

/* The step that begins at `block`; N_STEPS if none does. */
ALWAYS_INLINE size_t tray_step_at(const struct slab *slab, const void *block) {
    size_t offset = (size_t)((const char *)block - slab->start);
    return (offset & (tray_step_bytes() - 1)) == 0 ? offset >> tray_layout.step_shift : N_STEPS;
}

/* Steps of the block that begins in the step of `block`, in the unit of `entry`, or 0. */
ALWAYS_INLINE size_t tray_length_in(const struct slab *entry, const void *block) {
    size_t in_unit = ((uintptr_t)block & (UNIT_BYTES - 1)) >> tray_layout.step_shift;
    return entry->lengths[in_unit];
}

ALWAYS_INLINE size_t tray_length_of(const void *block) {
    return tray_length_in(unit_slab_of((uintptr_t)block), block);
}

/* Take free steps into use; true if they read as zero. */
ALWAYS_INLINE bool tray_take_steps(struct slab *slab, size_t at, size_t n) {
    step_set taken = steps(at, n);
    bool is_zero = (slab[1].dirty_steps & taken) == 0 && options.purge_how != PURGE_FREE;
    slab[1].free_steps &= ~taken;
    slab[1].dirty_steps &= ~taken;
    slab[2].aged_steps &= ~taken;
    slab->carved += (uint32_t)n;
    return is_zero;
}

ALWAYS_INLINE void tray_give_steps(struct slab *slab, size_t at, size_t n) {
    step_set given = steps(at, n);
    slab[1].free_steps |= given;
    slab[1].dirty_steps |= given;
    slab->carved -= (uint32_t)n;
}

/* Bytes of the block that begins at `block`; 0 if none does.  For any thread that has the block. */
size_t tray_block_bytes(const struct slab *slab, const void *block);

/* End the program unless a block begins at `block`. */
void tray_check(const struct slab *slab, const void *block);

/* Give free memory of a tray back that was free at the last look, or all; false if there was
 * nothing to give back.  Of all trays of a superblock: all. */
bool tray_purge(struct slab *slab, bool all);
void tray_purge_superblock(struct superblock *sb);

bool tray_is_valid(const struct slab *slab);

#endif
