/* superblock.h - aligned pieces of memory, cut into units of 16 KiB.
 *
 *   superblock (superblock_size bytes, aligned to its size)
 *   +------------------+----------------------+---------------+----------+
 *   | head: lists, bit | slab[0] slab[1] ...  | blocks of the | unit 1   | ...
 *   | maps, purge age  | one of 64 B per unit | first unit    |          |
 *   +------------------+----------------------+---------------+----------+
 *
 * A thread's heap lies behind the table of a superblock that it begins with, and so on a page
 * that is touched anyway.  All that describes blocks lies in the head, none of it next to blocks.
 * The head of any block is found by masking its address, its slab by the number of its unit; only
 * touched parts of the table cost memory.
 *
 * Which addresses belong to superblocks at all, and to whose, is answered by
 * the owner map: one byte for every superblock-sized piece of the address
 * space, sparse, untouched where there is nothing.  One comparison with it
 * tells free() that the pointer is ours and the block our own thread's.
 */
#ifndef EXGEN_SUPERBLOCK_H
#define EXGEN_SUPERBLOCK_H

#include "base/platform.h"

enum {
    UNIT_SHIFT = 14,
    SLAB_SHIFT = 6, /* log2(sizeof(struct slab)) */
    UNIT_BYTES = 1 << UNIT_SHIFT,
    N_UNITS_MAX = 8388608 / UNIT_BYTES, /* of the largest superblock_size */
    N_UNIT_WORDS = N_UNITS_MAX / 64,
    N_BUCKETS = 11,           /* log2 of a number of free units, or none */
    SLAB_ALIGNMENT_MAX = 4096 /* slabs start at a multiple of this if their blocks need it */
};

/* What a byte of the owner map says. */
enum {
    OWNER_NONE = 0,  /* no superblock there */
    OWNER_FIRST = 1, /* ... to OWNER_LAST: the heap with this number */
    OWNER_LAST = 253,
    OWNER_IN_HEAD = 254, /* a heap with a higher number: see head */
    OWNER_NOBODY = 255   /* in no map; the number of a thread that must take the slow path */
};

struct heap;

/* What is a slab without a size class. */
enum {
    CLASS_TRAY = 253,     /* blocks of different sizes, see tray.h */
    CLASS_UNIT_RUN = 254, /* a single block, of units of its own */
    CLASS_NONE = 255      /* not a slab */
};

enum slab_state {
    SLAB_FREE = 0, /* not the first unit of a slab */
    SLAB_ASLEEP,   /* no list: every carved block is in use, or too few are free to bother */
    SLAB_PARTIAL,  /* in its bin's list: has free blocks */
    SLAB_ACTIVE    /* feeds the thread's list of its class; in no list itself */
};

/* Steps of a tray, see tray.h. */
__extension__ typedef unsigned __int128 step_set;

/* One slab: blocks of one size in one or more units, a single block with
 * units of its own (class CLASS_UNIT_RUN), or a tray (CLASS_TRAY, see tray.h).
 *
 *   used      == countdown + 1 + asleep         blocks handed out, or in the thread's list
 *   carved    == used + length of `free`        blocks that exist
 *   capacity  >= carved                         blocks that fit
 *
 * `countdown` goes below 0 with the free that is an event: the slab becomes
 * empty, or is to wake up.  In a free unit it is 0 as well, so one decrement and
 * one test of the sign notice everything that is not common. */
struct slab {
    void *free;        /* LIFO list through the first word of free blocks */
    int32_t countdown; /* frees to come before the one that is an event; -1: no free may come */
    uint32_t asleep;   /* blocks in use that the countdown leaves out; 0 unless SLAB_ASLEEP */
    union {
        struct {
            struct slab *next; /* doubly linked list of the bin, while SLAB_PARTIAL */
            struct slab *previous;
            char *start; /* first block */
            uint32_t block_bytes;
            uint32_t capacity; /* blocks */
        };
        /* Later units of a tray, see tray.h. */
        struct {
            step_set free_steps;
            step_set dirty_steps; /* subset of free_steps: may hold what was written */
        };
        step_set aged_steps; /* subset of dirty_steps: were so at the last look of the purger */
        uint8_t lengths[32]; /* steps of the block that begins there, or 0: of two units */
    };
    uint32_t carved;   /* blocks */
    uint32_t to_first; /* bytes back to the entry of the unit where this one's slab starts */
    uint16_t n_units;  /* 0 unless a slab starts here */
    uint8_t class;     /* index in classes.of, CLASS_UNIT_RUN or CLASS_NONE */
    uint8_t state;     /* enum slab_state */
    bool
        zeroed; /* blocks given out since the last carving read as zero, but for their first word */
    bool clean; /* uncarved memory reads as zero */
    uint8_t unit_class; /* of every unit of the slab: size class + 1, or 0 if it has none */
};

_Static_assert(sizeof(struct slab) == CACHE_LINE && CACHE_LINE == 1 << SLAB_SHIFT,
               "one cache line per slab");

/* Blocks handed out, or in the thread's list. */
ALWAYS_INLINE uint32_t slab_used(const struct slab *slab) {
    return slab->n_units == 0 ? 0 : (uint32_t)(slab->countdown + 1) + slab->asleep;
}

/* Bytes of those blocks. */
ALWAYS_INLINE size_t slab_used_bytes(const struct slab *slab) {
    size_t n = slab->class == CLASS_TRAY ? slab->carved : slab_used(slab);
    return n * slab->block_bytes;
}

/* Expect the event at the n-th free from now; the other used blocks sleep. */
ALWAYS_INLINE void slab_set_used(struct slab *slab, uint32_t used, uint32_t n) {
    slab->countdown = (int32_t)n - 1;
    slab->asleep = used - n;
}

/* A set of units. */
struct unit_set {
    uint64_t word[N_UNIT_WORDS];
};

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

/* Constants of this run, read on every path; written once at start. */
struct layout {
    uint8_t *owner_map;  /* one byte per superblock-sized piece; a single 0 where there is no room
                            for that */
    uintptr_t base_mask; /* takes an address to its superblock */
    uintptr_t slab_mask; /* (n_units - 1) * sizeof(struct slab) */
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

/* As owner_at for any value, even one that cannot be an address of a program. */
uint8_t owner_of_any(uintptr_t address);

ALWAYS_INLINE struct superblock *superblock_of(uintptr_t address) {
    return (struct superblock *)(address & layout.base_mask);
}

/* The table entry of the unit of `address`, which lies in a superblock.  The
 * number of the unit times the size of an entry, in one shift and one mask. */
ALWAYS_INLINE struct slab *unit_slab_of(uintptr_t address) {
    uintptr_t entry = address >> (UNIT_SHIFT - SLAB_SHIFT) & layout.slab_mask;
    return (struct slab *)((char *)superblock_of(address)->slab + entry);
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
void superblock_destroy(struct superblock *sb);

/* Write the owner into head and map; `number` is the heap's. */
void superblock_set_owner(struct superblock *sb, struct heap *owner, uint8_t number);
struct heap *superblock_owner(const struct superblock *sb);

/* Lowest run of `n` free units at or after `from`; n_units if there is none. */
size_t superblock_find(const struct superblock *sb, size_t n, size_t from);

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

/* For the moment of a fork. */
void superblock_lock(void);
void superblock_unlock(void);

bool superblock_is_valid(const struct superblock *sb);
bool slab_is_valid(const struct slab *slab);

#endif
