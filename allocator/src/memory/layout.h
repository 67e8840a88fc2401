/* layout.h - the constants of this run that say where things lie, and the owner map.
 *
 * Which addresses belong to superblocks at all, and to whose, is answered by
 * the owner map: one byte for every superblock-sized piece of the addresses around it, where the
 * system maps what is asked for.  It is reserved for reading, which costs no memory; pages of it
 * become writable, and are charged, where superblocks are.  One comparison with it
 * shows free() that the pointer is ours and the block our own thread's.  A second map, of the whole
 * address space, comes with the first superblock that lies elsewhere; slow paths alone know it.
 */
#ifndef EXGEN_LAYOUT_H
#define EXGEN_LAYOUT_H

#include "base/platform.h"

enum {
    UNIT_SHIFT = 14,
    PLACE_SHIFT = 4, /* log2(BLOCK_ALIGNMENT) */
    UNIT_BYTES = 1 << UNIT_SHIFT,
    N_UNITS_MAX = 8388608 / UNIT_BYTES, /* of the largest superblock_size */
    SLAB_SHIFT = 6                      /* log2(sizeof(struct slab)) */
};

_Static_assert(1 << PLACE_SHIFT == BLOCK_ALIGNMENT,
               "a place for each address that a block may have");

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
    uint8_t *owner_map;    /* one byte per superblock-sized piece */
    uintptr_t map_start;   /* address that its first byte is of */
    uintptr_t n_places;    /* addresses that blocks may have in the map; 0 before the start */
    uintptr_t base_mask;   /* takes an address to the start of its superblock */
    uintptr_t slab_mask;   /* (n_units - 1) * sizeof(struct slab), and colour_mask */
    uintptr_t colour_mask; /* where the head lies in its superblock, see superblock.h */
    uint32_t piece_shift;  /* takes a place to its piece */
    uint32_t n_units;      /* units of a superblock */
    size_t bytes;          /* superblock_size */
    uintptr_t link_secret; /* what links are encoded with, see link.h */
    uintptr_t link_zeros;  /* bits that are zero in the address of every block */
};

extern HIDDEN struct layout layout;

/* Choose sizes and reserve the owner map.  False if the system refuses. */
bool layout_init(size_t superblock_bytes);

/* OWNER_NONE also where the first map does not reach, and at what no block's address can be: the
 * bits that are 0 in those become the highest ones of a place. */
ALWAYS_INLINE uint8_t owner_at(uintptr_t address) {
    uintptr_t offset = address - layout.map_start;
    uintptr_t place = offset >> PLACE_SHIFT | offset << (64 - PLACE_SHIFT);
    if (unlikely(place >= layout.n_places))
        return OWNER_NONE;
    return __atomic_load_n(&layout.owner_map[place >> layout.piece_shift], __ATOMIC_RELAXED);
}

/* As owner_at for any value, even one that cannot be an address of a program.  A thread that reads
 * an owner here may read the head that was written before owner_set. */
uint8_t owner_of_any(uintptr_t address);

/* Write the byte of a superblock; for the first time after owner_map_widen. */
void owner_set(const void *superblock, uint8_t number);

/* Superblocks may lie in [start, start + bytes) from now on.  False if the system refuses memory
 * for the bytes that say whose. */
bool owner_map_widen(const void *start, size_t bytes);

/* Hold the map still: meanwhile no superblock is unmapped.  Also for the moment of a fork.  False
 * if it is held and the caller does not want to wait. */
bool owner_map_lock(bool waits);
void owner_map_unlock(void);

/* The next superblock behind `previous`, or the first if that is NULL; NULL after the last.  With
 * the lock held. */
void *owner_map_next(const void *previous);

#endif
