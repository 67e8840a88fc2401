/* heap.c - slabs of small blocks: free, carve, sleep and wake.
 *
 * States of a slab (see struct slab for the counters):
 *
 *   new -> ACTIVE -> ASLEEP -> PARTIAL -> ACTIVE ...      and empty -> units free
 *
 * A slab that has handed out everything falls asleep: frees then only push and
 * count down, until merge_percent of its blocks came back (of larger blocks one, unless two other
 * slabs wait), and it wakes into the list of partial slabs.  At most one slab per bin has untouched
 * memory.
 *
 * Every path is O(1) but for carving (commit_step bytes).
 */
#include "heap/heap.h"

#include "heap/kept.h"
#include "heap/supply.h"
#include "heap/trays.h"
#include "heap/visit.h"
#include "memory/guard.h"
#include "memory/junk.h"
#include "memory/slab_pages.h"
#include "system/os.h"

enum {
    EARLIER_WHEN_SLACK = 4,   /* a slab wakes up after so much smaller a share of it was freed */
    WAKE_AT_ONCE_BYTES = 512, /* a slab of blocks of this size and more wakes up with the first, if
                                 it is missed */
    THIN_AT_ONCE_BYTES = 128  /* ... gives back pages as soon as it has few */
};

_Thread_local struct local local = {.number = OWNER_NOBODY, .own_number = OWNER_NOBODY};

struct slab no_slab = {.class = CLASS_NONE};

struct batch *no_batches[N_GROUPS];

size_t heap_bytes(void) {
    return offsetof(struct heap, bins) + classes.n_classes * sizeof(struct bin);
}

void heap_init(struct heap *heap, uint8_t number) {
    heap->number = number;
    heap->batches = no_batches;
    for (size_t i = 0; i < classes.n_classes; i++)
        heap->bins[i].active = &no_slab;
}

/* --- the list of partial slabs --- */

/* Atomic, since has_waiting looks at the ends of a list that a visitor may change. */
ALWAYS_INLINE void set_link(struct slab **place, struct slab *slab) {
    __atomic_store_n(place, slab, __ATOMIC_RELAXED);
}

static void list_push_first(struct slab_list *list, struct slab *slab) {
    slab->previous = NULL;
    slab->next = list->first;
    set_link(list->first != NULL ? &list->first->previous : &list->last, slab);
    set_link(&list->first, slab);
}

/* Behind all slabs that have a block in use; the empty ones come last, few of each class, so that
 * they are found when they are to be given back, however long the list. */
static void list_push_last(struct slab_list *list, struct slab *slab) {
    struct slab *before = list->last;
    while (!slab->is_empty && before != NULL && before->is_empty)
        before = before->previous;
    slab->previous = before;
    slab->next = before != NULL ? before->next : list->first;
    set_link(slab->next != NULL ? &slab->next->previous : &list->last, slab);
    set_link(before != NULL ? &before->next : &list->first, slab);
}

static void list_remove(struct slab_list *list, struct slab *slab) {
    set_link(slab->previous != NULL ? &slab->previous->next : &list->first, slab->next);
    set_link(slab->next != NULL ? &slab->next->previous : &list->last, slab->previous);
    slab->next = slab->previous = NULL;
}

static void leave_partial(struct heap *heap, struct bin *bin, struct slab *slab) {
    list_remove(&bin->partial, slab);
    heap->n_slack_units -= slab->is_slack ? slab->n_units : 0;
    slab->is_slack = false;
}

/* A slab in the list of partial ones has many free blocks. */
static void become_slack(struct heap *heap, struct slab *slab) {
    heap->n_slack_units += slab->is_slack ? 0 : slab->n_units;
    slab->is_slack = true;
}

/* --- transitions --- */

ALWAYS_INLINE void note_slack(struct heap *heap) {
    heap->is_slack = heap_has_slack(heap);
}

/* Free blocks of a slab that are slack.  In a slack heap they are fewer, so that the slab is filled
 * again and others, with fewer blocks in use, become empty. */
ALWAYS_INLINE uint32_t slack_blocks(const struct heap *heap, const struct slab *slab) {
    uint32_t n = slab->capacity * (uint32_t)options.merge_percent / 100;
    if (slab->block_bytes >= WAKE_AT_ONCE_BYTES)
        n += n / 2; /* they wake up at once where they are missed */
    if (unlikely(heap->is_slack))
        n /= EARLIER_WHEN_SLACK;
    return n > 0 ? n : 1;
}

/* Whether two slabs or more wait to be used; a guess, as the thread is not inside (visit.h). */
ALWAYS_INLINE bool has_waiting(const struct bin *bin) {
    return __atomic_load_n(&bin->partial.first, __ATOMIC_RELAXED) !=
           __atomic_load_n(&bin->partial.last, __ATOMIC_RELAXED);
}

/* Blocks of a slab to be freed before it wakes up.  Waiting saves work in proportion to the number
 * of blocks, and costs memory in proportion to their size, but next to none while others wait to be
 * used. */
ALWAYS_INLINE uint32_t blocks_to_wake(const struct heap *heap, const struct bin *bin,
                                      const struct slab *slab) {
    bool is_missed = slab->block_bytes >= WAKE_AT_ONCE_BYTES && !has_waiting(bin);
    return is_missed ? 1 : slack_blocks(heap, slab);
}

/* An active slab with nothing left to give waits for frees. */
ALWAYS_INLINE void fall_asleep(const struct heap *heap, struct bin *bin) {
    struct slab *slab = bin->active;
    if (slab == &no_slab)
        return;
    ASSERT(slab->free == NULL && slab_used(slab) > 0);
    uint32_t used = slab_used(slab);
    uint32_t wake = blocks_to_wake(heap, bin, slab);
    slab_set_used(slab, used, wake > used ? used : wake);
    slab->state = SLAB_ASLEEP;
    bin->active = &no_slab;
}

/* The event of a slab with many free blocks is that few are in use, or none. */
static void await_few(struct slab *slab) {
    uint32_t used = slab_used(slab);
    uint32_t few = slab_few_blocks(slab);
    slab_set_used(slab, used, used > few ? used - few : used);
}

/* That of one with some is that these are many. */
static void await_many_free(struct heap *heap, struct slab *slab) {
    uint32_t used = slab_used(slab);
    uint32_t n_free = slab->capacity - used;
    uint32_t many = slack_blocks(heap, slab);
    if (n_free < many) {
        slab_set_used(slab, used, many - n_free < used ? many - n_free : used);
        return;
    }
    become_slack(heap, slab);
    await_few(slab);
}

static void wake_up(struct heap *heap, struct slab *slab) {
    struct bin *bin = &heap->bins[slab->class];
    await_many_free(heap, slab);
    slab->state = SLAB_PARTIAL;
    if (options.slab_order == SLAB_ORDER_FIFO)
        list_push_last(&bin->partial, slab);
    else
        list_push_first(&bin->partial, slab);
}

ALWAYS_INLINE void activate(struct bin *bin, struct slab *slab) {
    ASSERT(bin->active == &no_slab);
    slab_set_used(slab, slab_used(slab), slab_used(slab));
    slab->state = SLAB_ACTIVE;
    bin->active = slab;
}

/* A slab in the list of partial ones has no block in use any more, or leaves the list. */
static void add_empty(struct heap *heap, struct bin *bin, struct slab *slab) {
    slab->is_empty = true;
    become_slack(heap, slab);
    list_remove(&bin->partial, slab);
    list_push_last(&bin->partial, slab);
    bin->n_empty++;
    heap->n_empty_units += slab->n_units;
    kept_set_limit(heap, 0);
}

static void leave_empty(struct heap *heap, struct bin *bin, struct slab *slab) {
    slab->is_empty = false;
    bin->n_empty--;
    heap->n_empty_units -= slab->n_units;
}

ALWAYS_INLINE struct slab *pop_partial(struct heap *heap, struct bin *bin) {
    struct slab *slab = bin->partial.first;
    if (slab == NULL)
        return NULL;
    leave_partial(heap, bin, slab);
    slab->is_old = false;
    slab->n_thinned = 0;
    if (slab->is_empty)
        leave_empty(heap, bin, slab);
    if (unlikely(slab->has_absent))
        slab_restore_pages(slab);
    return slab;
}

void heap_thin(struct heap *heap, struct slab *slab) {
    struct slab_list *list = &heap->bins[slab->class].partial;
    while (slab_used(slab) <= slab_few_blocks(slab))
        slab->n_thinned++;
    await_few(slab);
    if (!slab_drop_pages(slab))
        return;
    list_remove(list, slab);
    list_push_last(list, slab);
}

/* Behind the units of a slab. */
static char *units_end(const struct slab *slab) {
    return (char *)round_down((uintptr_t)slab->start, UNIT_BYTES) +
           (size_t)slab->n_units * UNIT_BYTES;
}

/* Give the units of an empty slab, which is in no list, back to the supply. */
static void release(struct heap *heap, struct slab *slab) {
    ASSERT(slab_used(slab) == 0);
    bool is_guarded = options.secure && slab->class != CLASS_UNIT_RUN && slab->is_guarded;
    if (unlikely(is_guarded) && !unguard_last_page(units_end(slab))) {
        slab->state = SLAB_ASLEEP; /* its units stay taken */
        return;
    }
    if (slab->has_absent)
        slab_forget_pages(slab);
    if (slab->class != CLASS_UNIT_RUN) {
        struct bin *bin = &heap->bins[slab->class];
        bin->n_units -= slab->n_units;
        if (bin->fresh == slab)
            bin->fresh = NULL;
    }
    supply_give(heap, slab);
}

static void slab_emptied(struct heap *heap, struct slab *slab) {
    if (slab->state == SLAB_ACTIVE)
        return; /* the next malloc of the class wants it; heap_trim comes for it otherwise */
    struct bin *bin = &heap->bins[slab->class];
    if (bin->n_empty < options.empty_slabs) {
        if (slab->state == SLAB_ASLEEP)
            wake_up(heap, slab);
        add_empty(heap, bin, slab);
        return;
    }
    if (slab->state == SLAB_PARTIAL)
        leave_partial(heap, bin, slab);
    release(heap, slab);
}

/* --- free --- */

/* A visitor may be about to give back what is kept. */
static bool keeps(struct heap *heap, const struct slab *slab, const void *block) {
    heap_enter(heap);
    bool is_kept = kept_has(heap, slab, block);
    heap_leave(heap);
    return is_kept;
}

bool heap_lists(struct heap *heap, struct local *l, const struct slab *slab, const void *block) {
    size_t class = slab->class;
    if (class >= CLASS_TRAY)
        return keeps(heap, slab, block);
    bool is_own = superblock_owner(superblock_of((uintptr_t)slab)) == heap;
    return (is_own && link_has(slab->free, block)) ||
           link_has(*ready_list(heap, l, class), block) ||
           link_has(heap->bins[class].foreign.free, block);
}

/* A block may only begin where one of the slab's was cut; without a division, which would take
 * longer than all the rest, hence inside a block of a class it is not noticed. */
static void check_place(const struct slab *slab, const void *block) {
    size_t offset = (size_t)((const char *)block - slab->start);
    if (unlikely(offset >= (size_t)slab->carved * slab->block_bytes))
        fatal("invalid free, not a block of this heap", block);
}

/* Whether a block without a size class that was counted down is a free one. */
static bool is_free_apart(const struct heap *heap, const struct slab *slab, const void *block) {
    if (slab->class == CLASS_UNIT_RUN)
        return slab->countdown < COUNTDOWN_KEPT;
    return slab->n_units == 0 || (link_is_marked(block) && kept_has(heap, slab, block));
}

/* A block that has no size class, or what is none. */
static void free_apart(struct heap *heap, struct slab *slab, void *block) {
    if (is_free_apart(heap, slab, block))
        fatal("double free", block);
    if (kept_add_slowly(heap, slab, block))
        return;
    if (slab->class == CLASS_TRAY) {
        trays_free(heap, slab, block);
        return;
    }
    check_place(slab, block);
    if (block != slab->start)
        fatal("invalid free, inside a block", block);
    slab_set_used(slab, 0, 0);
    release(heap, slab);
}

static void await_use(struct heap *heap, struct slab *slab) {
    slab_set_used(slab, slab_used(slab), slab_used(slab));
    if (options.purge_delay > 0 && slab_may_drop_pages())
        supply_schedule_purge(heap);
}

/* In a slack heap others are used before it, so its pages go at once; else they wait for a look
 * (sparse.h), as those of smaller blocks do, which take long to look through: most slabs that a
 * program sweeps are empty soon after. */
static void become_sparse(struct heap *heap, struct slab *slab) {
    if (heap->is_slack && slab->block_bytes >= THIN_AT_ONCE_BYTES)
        heap_thin(heap, slab);
    else
        await_use(heap, slab);
}

void heap_free_event(struct heap *heap, struct slab *slab, void *block) {
    if (slab->class >= CLASS_TRAY) {
        free_apart(heap, slab, block);
        return;
    }
    if (slab->countdown < -1)
        fatal("double free", block);
    check_place(slab, block);
    link_push(&slab->free, block);
    if (slab->asleep == 0)
        slab_emptied(heap, slab);
    else if (slab->state != SLAB_PARTIAL)
        wake_up(heap, slab);
    else if (slab->is_slack)
        become_sparse(heap, slab);
    else
        await_many_free(heap, slab);
}

void heap_free(struct heap *heap, struct slab *slab, void *block) {
    if (--slab->countdown < 0) {
        heap_enter(heap);
        heap_free_event(heap, slab, block);
        heap_leave(heap);
        return;
    }
    link_push(&slab->free, block);
}

bool heap_free_many(struct slab *slab, void *const *blocks, size_t n) {
    if (slab->countdown < (int32_t)n)
        return false;
    slab->countdown -= (int32_t)n;
    for (size_t i = 0; i < n; i++)
        link_push(&slab->free, blocks[i]);
    return true;
}

/* --- malloc --- */

/* The free blocks of a slab in the order in which they are to be used. */
static void *blocks_in_order(const struct slab *slab) {
    if (likely(options.block_order == BLOCK_ORDER_LIFO))
        return slab->free;
    return options.block_order == BLOCK_ORDER_FIFO ? link_reverse(slab->free)
                                                   : link_sort(slab->free, slab);
}

/* The thread takes over all free blocks of the active slab. */
ALWAYS_INLINE void *take_list(struct heap *heap, struct slab *slab, size_t class) {
    void *block = blocks_in_order(slab);
    slab->free = NULL;
    slab_set_used(slab, slab->carved, slab->carved);
    slab->zeroed = false;
    *ready_list(heap, &local, class) = link_next(block);
    hand_out(block);
    return block;
}

/* With junk, new blocks look like freed ones; with secure, their order is random. */
static COLD char *link_hardened(struct heap *heap, char *start, size_t n, size_t block_bytes) {
    char *first = start;
    if (options.secure)
        first = junk_shuffle(&heap->random, start, n, block_bytes);
    for (size_t i = 0; i < n; i++) {
        char *block = start + i * block_bytes;
        void *next = i + 1 < n ? block + block_bytes : NULL;
        if (options.secure)
            next = link_next(block);
        junk_fill(block, block_bytes);
        link_set(block, next);
    }
    return first;
}

/* The first blocks of a slab that begins inside a page, behind the head of its superblock:
 * up to `n`, but none that begins in a page of which commit_step would touch a part only. */
static uint32_t blocks_of_first_page(const struct slab *slab, uint32_t n) {
    uintptr_t start = (uintptr_t)slab->start;
    uintptr_t end = round_down(start + (uintptr_t)n * slab->block_bytes, os_page_bytes());
    if (end <= start)
        return n;
    return (uint32_t)((end - start + slab->block_bytes - 1) / slab->block_bytes);
}

/* Cut the next blocks from the active slab's untouched memory, in address order. */
static void *carve(struct heap *heap, struct slab *slab, size_t class) {
    struct bin *bin = &heap->bins[class];
    char *first = slab->start + (size_t)slab->carved * slab->block_bytes;
    uint32_t n = slab->capacity - slab->carved;
    if (n > classes.of[class].carve_blocks)
        n = classes.of[class].carve_blocks;
    if (slab->carved == 0 && ((uintptr_t)first & (UNIT_BYTES - 1)) != 0)
        n = blocks_of_first_page(slab, n);
    /* The first is the caller's and stays untouched, so that the caller takes the page fault. */
    char *second = first + slab->block_bytes;
    char *last = first + (size_t)(n - 1) * slab->block_bytes;
    if (unlikely(options.junk)) {
        first = link_hardened(heap, first, n, slab->block_bytes);
        second = link_next(first);
    } else {
        for (char *block = second; block < last; block += slab->block_bytes)
            link_set(block, block + slab->block_bytes);
        if (n > 1)
            link_set(last, NULL);
        else
            second = NULL;
    }
    slab->carved += n;
    slab->countdown += (int32_t)n;
    slab->zeroed = slab->clean && !options.junk;
    if (slab->carved == slab->capacity)
        bin->fresh = NULL;
    *ready_list(heap, &local, class) = second;
    return first;
}

/* Cut the units of `slab` into blocks of `class`. */
static void divide(struct slab *slab, size_t class) {
    const struct size_class *c = &classes.of[class];
    char *end = units_end(slab) - guard_bytes();
    slab->is_guarded = guard_bytes() > 0 && guard_last_page(units_end(slab));
    slab->start = (char *)round_up((uintptr_t)slab->start, c->alignment);
    slab->block_bytes = c->block_bytes;
    slab->capacity = (uint32_t)((size_t)(end - slab->start) / c->block_bytes);
    slab->class = (uint8_t) class;
    for (size_t i = 0; i < slab->n_units; i++)
        slab[i].unit_class = (uint8_t)(class + 1);
    ASSERT(slab->capacity > 0);
}

size_t heap_next_units(const struct heap *heap, size_t class) {
    const struct size_class *c = &classes.of[class];
    return heap->bins[class].n_units < options.slab_start_units ? c->n_start_units : c->n_units;
}

void heap_add_slab(struct heap *heap, struct slab *units, size_t class) {
    divide(units, class);
    heap->bins[class].n_units += units->n_units;
    /* Getting units may adopt slabs of another heap, of this class too. */
    if (heap->bins[class].fresh == NULL)
        heap->bins[class].fresh = units;
    else
        release(heap, units);
}

/* The list that `slab` fed goes on at `wrong`: name the block whose link says so,
 * or, if the program has written into it since, the first block of the slab. */
static COLD void report_damage(const struct slab *slab, const void *wrong) {
    for (size_t i = 0; i < slab->carved; i++) {
        const char *block = slab->start + i * slab->block_bytes;
        if (link_next(block) == wrong)
            fatal("corrupted free list", block);
    }
    fatal("corrupted free list", slab->start);
}

void *heap_take_active(struct heap *heap, size_t class) {
    struct bin *bin = &heap->bins[class];
    struct slab *slab = bin->active;
    if (unlikely(*ready_list(heap, &local, class) != NULL))
        report_damage(slab, *ready_list(heap, &local, class));
    if (slab->free != NULL)
        return take_list(heap, slab, class);
    fall_asleep(heap, bin);
    return NULL;
}

void *heap_take_partial(struct heap *heap, size_t class) {
    struct bin *bin = &heap->bins[class];
    note_slack(heap);
    struct slab *slab = pop_partial(heap, bin);
    if (slab == NULL)
        return NULL;
    activate(bin, slab);
    return take_list(heap, slab, class);
}

void *heap_take_fresh(struct heap *heap, size_t class) {
    struct bin *bin = &heap->bins[class];
    if (bin->fresh == NULL)
        return NULL;
    activate(bin, bin->fresh);
    return carve(heap, bin->fresh, class);
}

size_t heap_largest_open_run;

void heap_largest_run_init(void) {
    size_t n_head = sizeof(struct superblock) / sizeof(struct slab) + layout.n_units;
    size_t first = n_head * sizeof(struct slab) >> UNIT_SHIFT;
    size_t half = layout.bytes / 2;
    size_t room = (layout.n_units - first - 1) << UNIT_SHIFT;
    size_t largest = half < room ? half : room;
    heap_largest_open_run = largest < options.large_min ? largest : options.large_min - 1;
}

size_t heap_largest_run(void) {
    if (options.secure && guard_is_left()) /* blocks above the classes have guards, so mappings */
        return 0;
    return heap_largest_open_run;
}

void *heap_make_run(struct slab *units, bool *is_zero) {
    units->class = CLASS_UNIT_RUN;
    units->block_bytes = (uint32_t)units->n_units << UNIT_SHIFT;
    units->capacity = units->carved = 1;
    slab_set_used(units, 1, 0);
    *is_zero = units->clean;
    return units->start;
}

/* --- lists and units given back --- */

void *heap_return_list(struct heap *heap, struct local *from, size_t class) {
    struct bin *bin = &heap->bins[class];
    struct slab *slab = bin->active;
    void **ready = ready_list(heap, from, class);
    void *of_others = NULL;
    for (void *block = *ready; block != NULL;) {
        void *next = link_follow(block);
        struct slab *home = slab_of((uintptr_t)block);
        if (home == slab) {
            link_set(block, slab->free);
            slab->free = block;
            slab->countdown--;
        } else if (superblock_owner(superblock_of((uintptr_t)block)) == heap) {
            heap_free(heap, home, block);
        } else {
            link_set(block, of_others);
            of_others = block;
        }
        block = next;
    }
    *ready = NULL;
    if (slab == &no_slab)
        return of_others;
    bin->active = &no_slab;
    if (slab_used(slab) == 0) {
        release(heap, slab);
    } else if (slab->free != NULL) {
        wake_up(heap, slab);
    } else {
        bin->active = slab;
        fall_asleep(heap, bin);
    }
    return of_others;
}

static void trim_partial(struct heap *heap, struct bin *bin) {
    while (bin->n_empty > 0) {
        struct slab *slab = bin->partial.last;
        ASSERT(slab->is_empty);
        leave_partial(heap, bin, slab);
        leave_empty(heap, bin, slab);
        release(heap, slab);
    }
}

static void trim_bin(struct heap *heap, struct bin *bin) {
    trim_partial(heap, bin);
    struct slab *fresh = bin->fresh;
    if (fresh != NULL && fresh->carved == 0)
        release(heap, fresh);
}

void heap_trim(struct heap *heap, size_t bytes) {
    kept_give_back(heap, bytes);
    for (size_t class = 0; class < classes.n_classes; class ++) {
        struct bin *bin = &heap->bins[class];
        struct slab *active = bin->active;
        if (active != &no_slab && slab_used(active) == 0) {
            bin->active = &no_slab;
            release(heap, active);
        }
        trim_bin(heap, bin);
    }
    trays_trim(heap);
}

void heap_trim_idle(struct heap *heap) {
    for (size_t class = 0; class < classes.n_classes; class ++)
        trim_bin(heap, &heap->bins[class]);
    trays_trim(heap);
}

void heap_link_slabs(struct heap *heap, struct superblock *sb) {
    for (size_t i = sb->first_unit;
         i<sb->n_units; i += sb->slab[i].n_units> 0 ? sb->slab[i].n_units : 1) {
        struct slab *slab = &sb->slab[i];
        if (slab->n_units > 0 && slab->class == CLASS_TRAY)
            trays_link(heap, slab);
        if (slab->n_units == 0 || slab->class >= CLASS_TRAY)
            continue;
        struct bin *bin = &heap->bins[slab->class];
        ASSERT(slab->state == SLAB_ASLEEP);
        bin->n_units += slab->n_units;
        /* Two fresh slabs in a bin are one too many: the new one forgets its untouched rest,
         * while other threads may check frees of its blocks. */
        if (slab->carved < slab->capacity && bin->fresh == NULL)
            bin->fresh = slab;
        else
            __atomic_store_n(&slab->capacity, slab->carved, __ATOMIC_RELAXED);
        if (slab->free != NULL || slab->has_absent) {
            wake_up(heap, slab);
            if (slab_used(slab) == 0)
                add_empty(heap, bin, slab);
        }
    }
}

void heap_unlink_slabs(struct heap *heap, struct superblock *sb) {
    for (size_t i = sb->first_unit;
         i<sb->n_units; i += sb->slab[i].n_units> 0 ? sb->slab[i].n_units : 1) {
        struct slab *slab = &sb->slab[i];
        if (slab->n_units > 0 && slab->class == CLASS_TRAY)
            trays_unlink(heap, slab);
        if (slab->n_units == 0 || slab->class >= CLASS_TRAY)
            continue;
        struct bin *bin = &heap->bins[slab->class];
        ASSERT(slab->state != SLAB_ACTIVE);
        bin->n_units -= slab->n_units;
        if (bin->fresh == slab)
            bin->fresh = NULL;
        if (slab->state == SLAB_PARTIAL) {
            leave_partial(heap, bin, slab);
            if (slab->is_empty)
                leave_empty(heap, bin, slab);
        }
        slab->state = SLAB_ASLEEP;
    }
}
