/* slab.h - one or more units with blocks of one size, with a single block, or a tray. */
#ifndef EXGEN_SLAB_H
#define EXGEN_SLAB_H

#include "memory/layout.h"

enum {
    SLAB_ALIGNMENT_MAX = 4096 /* slabs start at a multiple of this if their blocks need it */
};

/* What is a slab without a size class. */
enum {
    CLASS_TRAY = 253,     /* blocks of different sizes, see tray.h */
    CLASS_UNIT_RUN = 254, /* a single block, of units of its own */
    CLASS_NONE = 255      /* not a slab */
};

enum {
    COUNTDOWN_KEPT = -2 /* of a single block; less: it was freed twice */
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
 *   carved    == used + length of `free`        blocks that exist; see slab_pages.h, too, and
 *                                               kept.h for a single block
 *   capacity  >= carved                         blocks that fit
 *
 * `countdown` goes below 0 with the free that is an event: the slab becomes
 * empty, or is to wake up, or has few blocks left.  In a free unit it is 0 as well, so one
 * decrement and one test of the sign notice everything that is not common.  That of a single block
 * is -1 in use, and stays at COUNTDOWN_KEPT while the freed block is kept (see kept.h). */
struct slab {
    union {
        struct {
            void *free;        /* LIFO list through the first word of free blocks */
            int32_t countdown; /* frees before the one that is an event; -1: none may come */
            uint32_t asleep;   /* blocks in use that the countdown leaves out; 0 if active */
        };
        /* Later units of a tray, as below, see tray.h. */
        step_set dirty_steps; /* subset of free_steps: may hold what was written */
        step_set aged_steps;  /* subset of dirty_steps: were so at the last look of the purger */
    };
    union {
        struct {
            struct slab *next; /* doubly linked list of the bin, while SLAB_PARTIAL; see kept.h */
            struct slab *previous;
        };
        uint8_t lengths[16]; /* of every unit of a tray: steps of the block that begins, or 0 */
    };
    union {
        struct {
            char *start; /* first block */
            uint32_t block_bytes;
            uint32_t capacity; /* blocks */
        };
        step_set free_steps;
        struct {
            struct slab *next_tray; /* doubly linked list of the heap */
            struct slab *previous_tray;
        };
    };
    uint32_t carved;   /* blocks */
    uint32_t to_first; /* bytes back to the entry of the unit where this one's slab starts */
    uint16_t n_units;  /* 0 unless a slab starts here */
    uint8_t class;     /* index in classes.of, CLASS_UNIT_RUN or CLASS_NONE */
    uint8_t state;     /* enum slab_state */
    bool
        zeroed; /* blocks given out since the last carving read as zero, but for their first word */
    bool clean : 1;        /* uncarved memory reads as zero */
    bool is_slack : 1;     /* in its bin's list, with so many free blocks that its units count */
    uint8_t n_thinned : 4; /* how often its used blocks had become half as many, see slab_pages.h */
    uint8_t unit_class;    /* of every unit of the slab: size class + 1, or 0 if it has none */
    bool is_guarded : 1;   /* its last page may not be touched, see guard.h */
    bool is_empty : 1;     /* in its bin's list, without a block in use */
    bool has_absent : 1;   /* pages, see slab_pages.h */
    bool is_old : 1;       /* in its bin's list since the last look of the purger */
    uint8_t absent : 4;    /* pages of this unit */
};

_Static_assert(sizeof(struct slab) == CACHE_LINE && CACHE_LINE == 1 << SLAB_SHIFT,
               "one cache line per slab");

/* Blocks handed out, or in the thread's list. */
ALWAYS_INLINE uint32_t slab_used(const struct slab *slab) {
    return slab->n_units == 0 ? 0 : (uint32_t)(slab->countdown + 1) + slab->asleep;
}

/* Whether it is a single block that is kept. */
ALWAYS_INLINE bool slab_is_kept(const struct slab *slab) {
    return slab->class == CLASS_UNIT_RUN && slab->countdown <= COUNTDOWN_KEPT;
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

#endif
