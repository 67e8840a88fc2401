/* heap.h - one thread's heap: bins of slabs over a supply of superblocks.
 *
 * malloc takes the first block of a list in thread-local storage; free puts the
 * block on the list of its slab.  The two lists meet only when the first runs
 * out: then the thread takes over a whole slab's list at once (deferred
 * merging).  So the common paths touch one list head, one block, and, in free,
 * one cache line of slab data.
 *
 * Only the owning thread touches a heap, except for the inboxes, where other
 * threads leave the blocks they freed, and except for a heap without a thread,
 * which belongs to the thread that took it from the orphans (see registry.h).
 */
#ifndef EXGEN_HEAP_H
#define EXGEN_HEAP_H

#include "base/options.h"
#include "memory/link.h"
#include "memory/size_class.h"
#include "memory/spare.h"
#include "memory/superblock.h"
#include "memory/tray.h"

enum {
    N_KEPT_LISTS = 64,                                 /* one for each length, see kept.h */
    N_KEPT_UNITS = N_KEPT_LISTS - 1 - N_TRAY_BLOCK_MAX /* of the largest slab with a single block */
};

struct slab_list {
    struct slab *first;
    struct slab *last;
};

/* The blocks of one size class that the thread freed and that are other heaps', and the thread's
 * own if it frees both by turns, see free_mixed. */
struct foreign {
    void *free;
    int32_t countdown; /* frees to come before the one that makes the list too long */
    uint16_t most;     /* countdown of the empty list; 0 before the first free */
    bool was_used;     /* by malloc, since the list was too long */
    bool has_fed;      /* others' blocks to the ready list, ever */
};

/* Blocks of one size class that are other heaps', on their way from the thread that freed them to
 * the exchange.  They are not touched: their lines may be in another processor's cache. */
struct batch {
    void **blocks;   /* places in a segment of the exchange, or NULL */
    uint32_t n;      /* blocks */
    uint32_t n_most; /* ... with which it goes; 0 without places */
};

enum {
    N_GROUP = 8, /* classes whose batches lie in one segment */
    N_GROUPS = (N_CLASSES_MAX + N_GROUP - 1) / N_GROUP
};

/* What a heap has of one size class. */
struct bin {
    struct slab *active;      /* feeds the ready list, as other threads' blocks may; or no_slab */
    struct slab *fresh;       /* the one slab with uncarved memory, or NULL */
    struct slab_list partial; /* slabs with free blocks, all SLAB_PARTIAL; empty ones last */
    uint32_t n_empty;         /* slabs in `partial` with no block in use */
    uint32_t n_units;         /* of all slabs */
    void *ready;              /* in place of local.free: for the higher classes, with junk, and in a
                                 parked heap */
    struct foreign foreign;
};

_Static_assert(sizeof(struct bin) == CACHE_LINE, "one cache line per class");

/* Freed blocks above the classes, see kept.h. */
struct kept {
    void *first[N_KEPT_LISTS]; /* blocks on trays, then slabs with one block */
    ptrdiff_t room;  /* steps of trays to be put into them before something else is to be done */
    ptrdiff_t limit; /* room, and the steps that they have */
    size_t n_units;  /* of slabs with one block; heap->n_units has them, the peak not */
    int32_t n_until_tick; /* blocks to be taken before they are counted, see housekeeping.h */
    int64_t n_taken;      /* ... and those taken since all was given back, with the former */
};

struct heap {
    struct superblock *superblocks;        /* all, through next and previous */
    struct superblock *buckets[N_BUCKETS]; /* the same by room, through bucket_next */
    uint64_t tray_lists;                   /* a bit for each of `trays` that is not empty */
    size_t n_trays;
    size_t n_empty_trays; /* without a block in use */
    size_t n_superblocks;
    size_t n_empty;       /* superblocks without a slab */
    size_t n_units;       /* units in slabs */
    size_t n_units_peak;  /* highest n_units so far */
    size_t n_slack_units; /* of slabs in `partial` of bins, with more than a few free blocks */
    size_t n_empty_units; /* ... of those without a block in use */
    size_t n_units_high;  /* highest n_units since the last fall, see heap_has_fallen */
    size_t n_units_low;   /* a fall is when no more than this are in use; 0: none is */
    uint64_t fall_ms;     /* when falls are given back without haste again */
    size_t n_dirty;       /* free units that may hold touched pages */
    uint64_t purge_ms; /* atomic outside of visit.h: when to look for memory to give back; 0: none
                          is due */
    bool is_slack;     /* the thread's alone: its slabs wake up early, see heap.c */
    bool looks;        /* a look is under way */
    bool has_ageing_slabs; /* sparse ones that a look saw for the first time */
    bool collects;         /* at each step: blocks that were sent to heaps without a thread */
    bool is_falling;       /* a fall is given back, see housekeeping.c */
    uint8_t n_held;        /* looks in a row that left memory alone */
    struct superblock *purge_next; /* where it goes on, or NULL: not at superblocks */
    struct slab *look_next;        /* ... at this tray first, or NULL: at that list */
    size_t look_list;
    size_t look_kept;               /* bytes of kept blocks that the look is still to give back */
    struct superblock *sparse_next; /* where the next look at slabs starts, or NULL: at the first */
    struct superblock *look_sparse; /* where one of the purger goes on, or NULL: it does not */
    struct superblock *shed_next;   /* where the next early purge starts, or NULL: at the first */
    uint32_t n_ticks;               /* slow paths since the last look */
    uint32_t entries;               /* atomic: see visit.h */
    bool is_at_kept;                /* atomic: the thread is at what is kept, see visit.h */
    bool has_visitor;               /* atomic: or is about to have one */
    bool is_occupied;               /* atomic: it has a thread, which another may visit */
    bool is_parked; /* it has none, and the lists of the last one as that left them, see thread.c */
    uint8_t n_returns;             /* visitors': visits from which its thread soon came back */
    uint32_t seen;                 /* ... entries at the last look */
    uint32_t visited;              /* ... and after the last visit that came to the end */
    uint32_t visiting;             /* ... and at the last part of one */
    struct superblock *visit_next; /* where that goes on, or NULL: at the first */
    uint64_t seen_ms;              /* atomic: since when it is so; 0: the thread is new */
    struct heap *next_made;        /* all heaps, see registry_next */
    uint64_t visit_ms;             /* when its thread looks at others' heaps again */
    uint8_t number;                /* in the owner map: OWNER_FIRST to OWNER_IN_HEAD */
    struct heap *next;             /* heaps without a thread, see registry.h */
    uint64_t parked_lists; /* while is_parked: a bit for each class whose bin has its ready list */
    void *pending;         /* blocks taken from the inbox, not yet freed */
    void *pending_runs;    /* the same of inbox_runs */
    uint32_t n_unmixed;    /* slow refills since others' blocks were used, see remote.h */
    void **quarantine;     /* freed blocks held back, options.quarantine places or NULL */
    uint64_t random;       /* state of random.h */
    struct slab *trays[N_TRAY_LISTS]; /* by room, see trays.h */
    struct kept kept;
    struct batch **batches; /* N_GROUPS groups, all in segments of the exchange; or no_batches */
    struct spare spare;
    struct superblock *fall_next;           /* where a fall goes on, or NULL */
    size_t fall_kept;                       /* bytes of kept blocks that it gives back before */
    _Alignas(CACHE_LINE) void *inbox;       /* atomic: LIFO of blocks freed by other threads */
    void *inbox_runs;                       /* atomic: the same of those above the size classes */
    _Alignas(CACHE_LINE) struct bin bins[]; /* n_classes */
};

/* What a thread has of its own; initial-exec, so one addition away.  Kept small:
 * a library that is loaded late has to fit into what the loader holds in reserve. */
struct local {
    void *free[N_QUICK_CLASSES + 1]; /* blocks ready for malloc, by class; CLASS_NOT_QUICK: NULL */
    struct heap *heap;               /* NULL until the first slow path, and after thread exit */
    struct bin *mixed;  /* of the heap, in a thread that uses others' blocks; or NULL */
    uint8_t number;     /* equals owner_at(block) if free may take the fast path */
    uint8_t own_number; /* of the heap; the same, but for when mixed is not NULL */
    struct heap *left;  /* at the thread's end, NULL before: it has one during a call only */
};

extern _Thread_local struct local local
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The same address, held in a register.  What one malloc stores at such an address the next one
 * loads without delay; with an index or a segment in the address it waits five cycles. */
ALWAYS_INLINE void **plain_address(void **list) {
#ifdef __x86_64__
    __asm__("" : "+d"(list)); /* not rax, in which malloc returns the block */
#else
    __asm__("" : "+r"(list));
#endif
    return list;
}

/* Make what comes behind `block` the list.  The first of it is fetched for the malloc that will
 * return it, which else waits for its link: blocks rest long enough on their slabs to leave the
 * caches.  One instruction. */
ALWAYS_INLINE void set_behind(void **list, const void *block) {
    void *next = link_next(block);
    *list = next;
    __builtin_prefetch(next);
}

/* A block that was free is handed out.  With junk that is for the caller to say, who verifies the
 * mark before. */
ALWAYS_INLINE void hand_out(void *block) {
    if (likely(!options.junk))
        link_unmark(block);
}

/* Where the blocks of `class` that are ready for malloc hang. */
ALWAYS_INLINE void **ready_list(struct heap *heap, struct local *l, size_t class) {
    if (class >= N_QUICK_CLASSES || unlikely(options.junk))
        return &heap->bins[class].ready;
    return &l->free[class];
}

/* A slab without blocks, the active slab of bins that have none. */
extern struct slab no_slab;

/* The groups of heaps without a batch, all NULL; nothing is written there. */
extern struct batch *no_batches[N_GROUPS];

/* Bytes of a heap. */
size_t heap_bytes(void);

/* The batch of a class; NULL if there is none yet. */
ALWAYS_INLINE struct batch *batch_of(const struct heap *heap, size_t class) {
    struct batch *batches = THREADS ? heap->batches[class / N_GROUP] : NULL;
    return batches != NULL ? &batches[class % N_GROUP] : NULL;
}

/* Make zeros a heap. */
void heap_init(struct heap *heap, uint8_t number);

/* All blocks of a list; NULL if there are none. */
ALWAYS_INLINE void *foreign_take(struct foreign *list) {
    void *first = list->free;
    list->free = NULL;
    list->countdown = list->most;
    return first;
}

/* The same if malloc may have them: two threads would go on sharing the cache line of smaller
 * ones. */
ALWAYS_INLINE void *foreign_take_for_use(struct heap *heap, size_t class) {
    if (!THREADS || class < classes.first_line)
        return NULL;
    struct foreign *list = &heap->bins[class].foreign;
    list->was_used = true;
    void *first = foreign_take(list);
    if (first != NULL)
        list->has_fed = true;
    return first;
}

/* The thread uses a block that it freed, which may be another's. */
ALWAYS_INLINE void note_mixed(struct heap *heap, struct local *l, const void *block) {
    if (owner_at((uintptr_t)block) == l->own_number)
        return;
    heap->n_unmixed = 0;
    l->mixed = l->own_number != OWNER_NOBODY ? heap->bins : NULL;
    l->number = OWNER_NOBODY;
}

/* The blocks freed in the active slab of `class`, one of local.free, or if there are none, others'
 * that the thread freed: the first, and the rest onto the ready list.  NULL if there are none, or
 * if it takes more than that. */
ALWAYS_INLINE void *heap_take_freed(struct heap *heap, struct local *l, size_t class) {
    struct slab *slab = heap->bins[class].active;
    void **list = plain_address(&l->free[class]);
    if (*list != NULL || options.junk || options.block_order != BLOCK_ORDER_LIFO)
        return NULL;
    void *block = slab->free;
    if (block != NULL) {
        slab->free = NULL;
        slab_set_used(slab, slab->carved, slab->carved);
        slab->zeroed = false;
    } else {
        block = foreign_take_for_use(heap, class);
        if (block == NULL)
            return NULL;
        if (slab != &no_slab)
            slab->zeroed = false; /* some may be its own, see free_mixed */
        note_mixed(heap, l, block);
    }
    set_behind(list, block);
    if (unlikely(!link_is_sound(*list)))
        return NULL; /* heap_take_active ends the program */
    link_unmark(block);
    return block;
}

/* A block of `class` when its ready list has none, and the others of the same place onto that list:
 * of the active slab, which falls asleep if it has none; from the partial slab that is next; from
 * untouched memory.  NULL if there is none there. */
void *heap_take_active(struct heap *heap, size_t class);
void *heap_take_partial(struct heap *heap, size_t class);
void *heap_take_fresh(struct heap *heap, size_t class);

/* Units of the next slab of `class`: in a class with few blocks, not many that stay idle. */
size_t heap_next_units(const struct heap *heap, size_t class);

/* Cut units, which have no class yet, into blocks of `class`. */
void heap_add_slab(struct heap *heap, struct slab *units, size_t class);

/* Make such units a single block. */
void *heap_make_run(struct slab *units, bool *is_zero);

/* Largest request that gets units of its own; for once, after layout_init.  The second is the same
 * without `secure`. */
size_t heap_largest_run(void);
extern HIDDEN size_t heap_largest_open_run;
void heap_largest_run_init(void);

/* Whether many slabs with free blocks wait to be used: the heap had more in use before.  Where all
 * it has is in use, blocks that leave and come by chance keep a twentieth waiting. */
ALWAYS_INLINE bool heap_has_slack(const struct heap *heap) {
    enum {
        SHARE = 4 /* of its units, in such slabs */
    };
    return heap->n_slack_units > heap->n_units / SHARE + (options.dirty_min >> UNIT_SHIFT);
}

/* Fewer units than this are not worth a look. */
ALWAYS_INLINE size_t heap_least_units(void) {
    return options.dirty_min / 2 >> UNIT_SHIFT;
}

ALWAYS_INLINE void heap_set_high(struct heap *heap, size_t n_units) {
    size_t least = heap_least_units();
    heap->n_units_high = n_units;
    bool has_low = n_units > least && options.fall_percent > 0;
    heap->n_units_low = has_low ? n_units * options.fall_percent / 100 + least : 0;
}

/* Bytes of all blocks that are kept. */
ALWAYS_INLINE size_t kept_bytes(const struct heap *heap) {
    return (size_t)(heap->kept.limit - heap->kept.room) << tray_layout.step_shift;
}

/* Before more bytes than this are kept, there is something else to be done. */
ALWAYS_INLINE void kept_set_limit(struct heap *heap, size_t bytes) {
    ptrdiff_t limit = (ptrdiff_t)(bytes >> tray_layout.step_shift);
    heap->kept.room += limit - heap->kept.limit;
    heap->kept.limit = limit;
}

/* Whether so little is left in use of what was that the thread may be about to wait for long; a
 * thread that waits gives nothing back. */
ALWAYS_INLINE bool heap_has_fallen(const struct heap *heap) {
    size_t n_idle = heap->n_empty_units + (kept_bytes(heap) >> UNIT_SHIFT);
    return unlikely(heap->n_units <= n_idle + heap->n_units_low) && heap->n_units_low > 0 &&
           heap->n_dirty + n_idle > heap_least_units();
}

/* Give back a block of the calling thread's heap. */
void heap_free(struct heap *heap, struct slab *slab, void *block);

/* Give back `n` blocks of one slab at once; false (and nothing done) if an event is among them. */
bool heap_free_many(struct slab *slab, void *const *blocks, size_t n);

/* Whether a list of the heap, or of its thread, has the block, which lies in `slab`. */
bool heap_lists(struct heap *heap, struct local *l, const struct slab *slab, const void *block);

/* The rest of heap_free when the countdown went below 0; the caller has entered (visit.h). */
void heap_free_event(struct heap *heap, struct slab *slab, void *block);

/* Put the thread's list of `class` back on the slabs it came from.  Returns those that are other
 * heaps', linked. */
void *heap_return_list(struct heap *heap, struct local *from, size_t class);

/* Give back kept blocks of so many bytes, or all, and the units of what is empty but was held for
 * the next malloc. */
void heap_trim(struct heap *heap, size_t bytes);

/* The units alone, by another thread while the heap's own is not in there (visit.h): active slabs
 * stay. */
void heap_trim_idle(struct heap *heap);

/* Give back the pages of a partial slab with few blocks in use on which there is none; the slab
 * will be used after all that have theirs. */
void heap_thin(struct heap *heap, struct slab *slab);

/* Add the slabs of a superblock that was another heap's, or remove them. */
void heap_link_slabs(struct heap *heap, struct superblock *sb);
void heap_unlink_slabs(struct heap *heap, struct superblock *sb);

#endif
