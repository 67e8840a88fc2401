/* layout.h - the constants of this run that say where things lie, and the owner map.
 *
 * Which addresses belong to superblocks at all, and to whose, is answered by
 * the owner map: one byte for every superblock-sized piece of the address
 * space.  It is reserved for reading, which costs no memory; pages of it become writable, and
 * are charged, where superblocks are.  One comparison with it
 * shows free() that the pointer is ours and the block our own thread's.
 */
#ifndef EXGEN_LAYOUT_H
#define EXGEN_LAYOUT_H

#include "base/platform.h"

enum {
    UNIT_SHIFT = 14,
    UNIT_BYTES = 1 << UNIT_SHIFT,
    N_UNITS_MAX = 8388608 / UNIT_BYTES, /* of the largest superblock_size */
    SLAB_SHIFT = 6                      /* log2(sizeof(struct slab)) */
};

/* What a byte of the owner map says. */
enum {
    OWNER_NONE = 0,  /* no superblock there */
    OWNER_FIRST = 1, /* ... to OWNER_LAST: the heap with this number */
    OWNER_LAST = 253,
    OWNER_IN_HEAD = 254, /* a heap with a higher number: see head */
    OWNER_NOBODY = 255   /* in no map; the number of a thread that must take the slow path */
};

/* Read on every path; written once at start. */
struct layout {
    uint8_t *owner_map;    /* one byte per superblock-sized piece; a single 0 where there is no room
                              for that */
    uintptr_t base_mask;   /* takes an address to the start of its superblock */
    uintptr_t slab_mask;   /* (n_units - 1) * sizeof(struct slab), and colour_mask */
    uintptr_t colour_mask; /* where the head lies in its superblock, see superblock.h */
    uint32_t
        shift; /* log2(superblock_size); where there is no room, takes every address to that 0 */
    uint32_t n_units;      /* units of a superblock */
    size_t bytes;          /* superblock_size */
    uintptr_t link_secret; /* what links are encoded with, see link.h */
    uintptr_t link_zeros;  /* bits that are zero in the address of every block */
};

extern HIDDEN struct layout layout;

/* Choose sizes and reserve the owner map.  False if the system refuses. */
bool layout_init(size_t superblock_bytes);

ALWAYS_INLINE uint8_t owner_at(uintptr_t address) {
    return __atomic_load_n(&layout.owner_map[address >> layout.shift], __ATOMIC_RELAXED);
}

/* As owner_at for any value, even one that cannot be an address of a program.  A thread that reads
 * an owner here may read the head that was written before owner_set. */
uint8_t owner_of_any(uintptr_t address);

/* Write the byte of a superblock; for the first time after owner_map_widen. */
void owner_set(const void *superblock, uint8_t number);

/* Superblocks may lie in [start, start + bytes) from now on.  False if the map does not reach so
 * far, or if the system refuses memory for it. */
bool owner_map_widen(const void *start, size_t bytes);

/* Hold the map still: meanwhile no superblock is unmapped.  Also for the moment of a fork.  False
 * if it is held and the caller does not want to wait. */
bool owner_map_lock(bool waits);
void owner_map_unlock(void);

/* The next superblock behind `previous`, or the first if that is NULL; NULL after the last.  With
 * the lock held. */
void *owner_map_next(const void *previous);

#endif
