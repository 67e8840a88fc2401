/* superblock.h - aligned pieces of memory, cut into units of 16 KiB.
 *
 *   superblock (superblock_size bytes, aligned to its size)
 *   +------------------+----------------------+---------------+----------+
 *   | head: lists, bit | slab[0] slab[1] ...  | blocks of the | unit 1   | ...
 *   | maps, purge age  | one of 64 B per unit | first unit    |          |
 *   +------------------+----------------------+---------------+----------+
 *
 * Heads lie at one of four places, the colour of the superblock, which bits of its address choose:
 * all at the same place would share few sets of a cache, and frees all over a large heap would
 * miss.  The memory before a head is never touched, but it is resident where huge pages are, so the
 * places are near each other.
 *
 * A thread's heap lies behind the table of a superblock that it begins with, and so on a page
 * that is touched anyway.  All that describes blocks lies in the head, none of it next to blocks.
 * The head of any block is found by masking its address, its slab by the number of its unit; only
 * touched parts of the table cost memory.
 */
#ifndef EXGEN_SUPERBLOCK_H
#define EXGEN_SUPERBLOCK_H

#include "memory/slab.h"
#include "memory/unit_set.h"

enum {
    N_BUCKETS = 11 /* log2 of a number of free units, or none */
};

struct heap;

struct superblock {
    struct heap *owner;      /* atomic: other threads read it to send blocks home */
    struct superblock *next; /* all superblocks of the heap, or the pool */
    struct superblock *previous;
    struct superblock *bucket_next; /* superblocks of the heap with similar room */
    struct superblock *bucket_previous;
    uint16_t n_units;     /* head included */
    uint8_t first_unit;   /* first unit that is not all head */
    bool holds_heap;      /* behind the table: is never unmapped */
    uint16_t n_free;      /* units */
    uint16_t largest_run; /* longest run of free units */
    uint8_t bucket;       /* log2(largest_run) + 1, or 0 if full */
    uint8_t n_trays;
    uint16_t n_dirty;      /* free units that may hold touched pages */
    uint32_t head_bytes;   /* with the heap in it, if `holds_heap` */
    uint64_t pooled_ms;    /* time of entering the pool */
    struct unit_set free;  /* units in no slab */
    struct unit_set dirty; /* subset of free: may hold touched pages */
    struct unit_set aged;  /* subset of dirty: were so at the last look of the purger */
    struct slab slab[];    /* n_units */
};

/* A unit's entry is so many address bits lower than the unit. */
enum {
    ENTRY_SHIFT = UNIT_SHIFT - SLAB_SHIFT
};

ALWAYS_INLINE struct superblock *superblock_of(uintptr_t address) {
    uintptr_t colour = address >> ENTRY_SHIFT & layout.colour_mask;
    return (struct superblock *)((address & layout.base_mask) + colour);
}

/* Where the superblock begins. */
ALWAYS_INLINE char *superblock_start(const struct superblock *sb) {
    return (char *)((uintptr_t)sb & layout.base_mask);
}

/* The table entry of the unit of `address`, which lies in a superblock.  The number of the unit
 * times the size of an entry, and the colour, in one shift and one mask. */
ALWAYS_INLINE struct slab *unit_slab_of(uintptr_t address) {
    uintptr_t entry = address >> ENTRY_SHIFT & layout.slab_mask;
    struct superblock *uncoloured = (struct superblock *)(address & layout.base_mask);
    return (struct slab *)((char *)uncoloured->slab + entry);
}

/* The slab of `address`, which lies in a superblock. */
ALWAYS_INLINE struct slab *slab_of(uintptr_t address) {
    struct slab *s = unit_slab_of(address);
    return (struct slab *)((char *)s - s->to_first);
}

/* The size class of a block, above all classes if it has none; from one line, not two. */
ALWAYS_INLINE size_t class_of_block(uintptr_t address) {
    return (uint8_t)(unit_slab_of(address)->unit_class - 1);
}

/* Map and set up an empty superblock; NULL if the system refuses. */
struct superblock *superblock_create(void);

/* The same with `bytes` of zeros in its head, for a heap; NULL also if that is not the place for
 * one: the head has no room, huge pages are asked for from the start, or the heap is to lie apart
 * (secure). */
struct superblock *superblock_create_for_heap(size_t bytes);

/* Where they are. */
void *superblock_heap_place(struct superblock *sb);

/* The same for as many as one huge page holds, linked through `next`. */
struct superblock *superblock_create_huge(void);

/* Unmap an empty superblock that holds no heap.  False (and nothing done) if somebody holds the
 * owner map and the caller does not want to wait. */
bool superblock_destroy(struct superblock *sb, bool waits);

/* Unmap all units but the head of an empty superblock that holds a heap and is nobody's; it is no
 * superblock any more.  False (and nothing done) if the head is all there is, or the system
 * refuses. */
bool superblock_leave_head(struct superblock *sb);

/* Write the owner into head and map; `number` is the heap's. */
void superblock_set_owner(struct superblock *sb, struct heap *owner, uint8_t number);

ALWAYS_INLINE struct heap *superblock_owner(const struct superblock *sb) {
    return __atomic_load_n(&sb->owner, __ATOMIC_RELAXED);
}

/* Lowest run of `n` free units at a multiple of `step`, a power of two, or, if that is 0, also
 * right behind the head; of those that may hold touched pages, or of all.  n_units if there is
 * none. */
size_t superblock_find(const struct superblock *sb, bool touched, size_t n, size_t step);

/* Make units a slab (all fields but the lists set, nothing carved), or free again. */
struct slab *superblock_take(struct superblock *sb, size_t at, size_t n);
void superblock_give(struct superblock *sb, struct slab *slab);

/* Free the last `n` units of a run block, or add the `n` free ones behind it. */
void superblock_shrink_run(struct superblock *sb, struct slab *slab, size_t n);
bool superblock_grow_run(struct superblock *sb, struct slab *slab, size_t n);

/* First byte of unit `at` that can hold blocks. */
char *superblock_unit_start(struct superblock *sb, size_t at);

ALWAYS_INLINE bool superblock_is_empty(const struct superblock *sb) {
    return sb->n_free == sb->n_units - sb->first_unit;
}

/* Give free memory back: that which has aged, or all. */
void superblock_purge(struct superblock *sb, bool all);

/* What all heaps but `except` hold, as far as it can be read while their threads run. */
struct superblock_counts {
    size_t n_superblocks;
    size_t n_blocks; /* blocks in use, in their threads' lists, or on their way home */
    size_t block_bytes;
    bool plausible; /* every head says what it must */
};
struct superblock_counts superblock_count_others(const struct heap *except);

/* Whether the units' sets and counts fit each other and the slabs; the slabs themselves are not
 * looked into. */
bool superblock_is_valid(const struct superblock *sb);

#endif
