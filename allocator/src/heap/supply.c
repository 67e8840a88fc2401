/* supply.c - a heap's superblocks, sorted by the room in them.
 *
 * Superblocks lie in buckets by the logarithm of their longest free run.  A
 * request looks at the bucket where it may fit first (the fullest superblocks,
 * so that others can become empty), at a bounded number of candidates in each,
 * hence O(1).  When none fits: an empty superblock of the pool, or a new one.
 *
 * Memory that becomes free is only noted here, with the time when to look at it;
 * purge.h and housekeeping.h, above, look.
 */
#include "heap/supply.h"

#include "base/options.h"
#include "memory/pool.h"
#include "memory/tray.h"
#include "system/os.h"

enum {
    N_CANDIDATES = 4,  /* looked at in each bucket */
    N_SHED_LOOKS = 16, /* superblocks looked at for memory to give back early */
    N_PURGE_LOOKS = 8  /* superblocks looked at in one step of a purge */
};

static size_t bucket_of(const struct superblock *sb) {
    return sb->largest_run == 0 ? 0 : log2_floor(sb->largest_run) + 1;
}

static void bucket_insert(struct heap *heap, struct superblock *sb) {
    sb->bucket = (uint8_t)bucket_of(sb);
    struct superblock **head = &heap->buckets[sb->bucket];
    sb->bucket_previous = NULL;
    sb->bucket_next = *head;
    if (*head != NULL)
        (*head)->bucket_previous = sb;
    *head = sb;
}

static void bucket_remove(struct heap *heap, struct superblock *sb) {
    *(sb->bucket_previous != NULL ? &sb->bucket_previous->bucket_next
                                  : &heap->buckets[sb->bucket]) = sb->bucket_next;
    if (sb->bucket_next != NULL)
        sb->bucket_next->bucket_previous = sb->bucket_previous;
}

static void bucket_update(struct heap *heap, struct superblock *sb) {
    if (bucket_of(sb) != sb->bucket) {
        bucket_remove(heap, sb);
        bucket_insert(heap, sb);
    }
}

/* Where a walk over the superblocks goes on that had come to `sb`. */
static void pass(struct superblock **cursor, const struct superblock *sb) {
    if (*cursor == sb)
        *cursor = sb->next;
}

/* Units of a superblock that are in slabs. */
static size_t units_in_use(const struct superblock *sb) {
    return (size_t)(sb->n_units - sb->first_unit - sb->n_free);
}

void supply_link(struct heap *heap, struct superblock *sb) {
    superblock_set_owner(sb, heap, heap->number);
    sb->previous = NULL;
    sb->next = heap->superblocks;
    if (sb->next != NULL)
        sb->next->previous = sb;
    heap->superblocks = sb;
    heap->n_superblocks++;
    heap->n_empty += superblock_is_empty(sb);
    heap->n_units += units_in_use(sb);
    heap->n_dirty += sb->n_dirty;
    bucket_insert(heap, sb);
}

void supply_unlink(struct heap *heap, struct superblock *sb) {
    *(sb->previous != NULL ? &sb->previous->next : &heap->superblocks) = sb->next;
    if (sb->next != NULL)
        sb->next->previous = sb->previous;
    heap->n_superblocks--;
    heap->n_empty -= superblock_is_empty(sb);
    heap->n_units -= units_in_use(sb);
    heap->n_dirty -= sb->n_dirty;
    pass(&heap->purge_next, sb);
    pass(&heap->visit_next, sb);
    pass(&heap->shed_next, sb);
    pass(&heap->fall_next, sb);
    pass(&heap->sparse_next, sb);
    pass(&heap->look_sparse, sb);
    bucket_remove(heap, sb);
}

void supply_schedule_purge(struct heap *heap) {
    bool is_due = __atomic_load_n(&heap->purge_ms, __ATOMIC_RELAXED) != 0;
    if (!is_due && options.purge_how != PURGE_NEVER)
        __atomic_store_n(&heap->purge_ms, os_clock_ms() + options.purge_delay, __ATOMIC_RELAXED);
}

static void purge(struct heap *heap, struct superblock *sb, bool all) {
    heap->n_dirty -= sb->n_dirty;
    superblock_purge(sb, all);
    if (all && sb->n_trays > 0)
        tray_purge_superblock(sb);
    heap->n_dirty += sb->n_dirty;
}

/* After units were freed in `sb`: give memory back now, or later. */
static void consider_purge(struct heap *heap, struct superblock *sb) {
    if (sb->n_dirty == 0)
        return;
    if (options.purge_delay == 0)
        purge(heap, sb, true);
    else
        supply_schedule_purge(heap);
}

/* Whether `n` more units, if none of them was touched, would lead to memory given back early. */
static bool raises_peak(const struct heap *heap, size_t n) {
    size_t most = heap->n_units_peak + heap->n_units_peak * options.dirty_percent / 100;
    size_t n_all = heap->n_units + heap->n_dirty + n;
    return n_all > most && heap->n_dirty * UNIT_BYTES > options.dirty_min;
}

/* After units were taken: give back free memory that would raise the peak.  What
 * was in use at the highest point may stay, in use or dirty, since giving it
 * back would not make the peak lower but cost faults. */
static void hold_peak(struct heap *heap) {
    size_t n_in_use = heap->n_units - heap->kept.n_units;
    if (n_in_use > heap->n_units_peak)
        heap->n_units_peak = n_in_use;
    if (heap->n_units > heap->n_units_high)
        heap_set_high(heap, heap->n_units);
    size_t most = heap->n_units_peak + heap->n_units_peak * options.dirty_percent / 100;
    if (heap->n_units + heap->n_dirty <= most || heap->n_dirty * UNIT_BYTES <= options.dirty_min)
        return;
    struct superblock *sb = heap->shed_next;
    for (size_t i = 0; i < N_SHED_LOOKS; i++) {
        if (sb == NULL)
            sb = heap->superblocks;
        if (sb->n_dirty > 0)
            break;
        sb = sb->next;
    }
    if (sb != NULL) {
        purge(heap, sb, true);
        sb = sb->next;
    }
    heap->shed_next = sb;
}

/* `n` units of `sb` at a multiple of `step`, or touched ones only. */
static struct slab *take_from(struct heap *heap, struct superblock *sb, size_t n, size_t step,
                              bool touched) {
    size_t at = !touched || sb->n_dirty >= n ? superblock_find(sb, touched, n, step) : sb->n_units;
    if (at == sb->n_units)
        return NULL;
    heap->n_empty -= superblock_is_empty(sb);
    heap->n_dirty -= sb->n_dirty;
    struct slab *slab = superblock_take(sb, at, n);
    heap->n_dirty += sb->n_dirty;
    heap->n_units += n;
    bucket_update(heap, sb);
    hold_peak(heap);
    return slab;
}

static struct slab *take_own(struct heap *heap, size_t n, size_t step, bool touched) {
    for (size_t bucket = log2_floor(n) + 1; bucket < N_BUCKETS; bucket++) {
        struct superblock *sb = heap->buckets[bucket];
        for (size_t i = 0; sb != NULL && i < N_CANDIDATES; i++, sb = sb->bucket_next) {
            struct slab *slab = take_from(heap, sb, n, step, touched);
            if (slab != NULL)
                return slab;
        }
    }
    return NULL;
}

/* Touched units first, where others would make the heap take more memory than it has in use and
 * free: that leads to memory given back elsewhere, and to page faults. */
struct slab *supply_take_own(struct heap *heap, size_t n, size_t step) {
    struct slab *slab = NULL;
    if (heap->n_dirty >= n && raises_peak(heap, n))
        slab = take_own(heap, n, step, true);
    return slab != NULL ? slab : take_own(heap, n, step, false);
}

/* A new superblock from the system; those that came with it go to the heap.  A grown heap asks
 * for huge pages where slabs are to lie, which are touched from end to end; trays are not. */
static struct superblock *create_superblock(struct heap *heap, bool is_dense) {
    bool is_grown = is_dense && options.huge_pages == HUGE_GROWN &&
                    heap->n_units << UNIT_SHIFT >= options.huge_min;
    if (!is_grown && options.huge_pages != HUGE_ALWAYS)
        return superblock_create();
    struct superblock *first = superblock_create_huge();
    for (struct superblock *sb = first != NULL ? first->next : NULL, *next; sb != NULL; sb = next) {
        next = sb->next;
        supply_link(heap, sb);
    }
    return first;
}

/* Units of `sb`, which becomes the heap's. */
static struct slab *take_from_new(struct heap *heap, struct superblock *sb, size_t n, size_t step) {
    if (sb == NULL)
        return NULL;
    supply_link(heap, sb);
    return take_from(heap, sb, n, step, false);
}

struct slab *supply_take_pooled(struct heap *heap, size_t n, size_t step) {
    return take_from_new(heap, pool_take(), n, step);
}

struct slab *supply_take_mapped(struct heap *heap, size_t n, size_t step) {
    return take_from_new(heap, create_superblock(heap, step == 0), n, step);
}

void supply_give(struct heap *heap, struct slab *slab) {
    struct superblock *sb = superblock_of((uintptr_t)slab);
    heap->n_dirty -= sb->n_dirty;
    heap->n_units -= slab->n_units;
    kept_set_limit(heap, 0);
    superblock_give(sb, slab);
    heap->n_dirty += sb->n_dirty;
    consider_purge(heap, sb);
    bucket_update(heap, sb);
    if (!superblock_is_empty(sb))
        return;
    heap->n_empty++;
    if (heap->n_empty > options.empty_superblocks) {
        supply_unlink(heap, sb);
        pool_give(sb);
    }
}

bool supply_resize_run(struct heap *heap, struct slab *slab, size_t n_units) {
    struct superblock *sb = superblock_of((uintptr_t)slab);
    size_t n_old = slab->n_units;
    size_t n_dirty = sb->n_dirty;
    if (n_units > n_old && !superblock_grow_run(sb, slab, n_units - n_old))
        return false;
    if (n_units < n_old)
        superblock_shrink_run(sb, slab, n_old - n_units);
    heap->n_units += n_units - n_old;
    heap->n_dirty += sb->n_dirty - n_dirty;
    if (n_units < n_old)
        consider_purge(heap, sb);
    bucket_update(heap, sb);
    return true;
}

bool supply_purge_step(struct heap *heap) {
    struct superblock *sb = heap->purge_next;
    for (size_t i = 0; sb != NULL && sb->n_dirty == 0 && i < N_PURGE_LOOKS; i++)
        sb = sb->next;
    if (sb != NULL && sb->n_dirty > 0) {
        purge(heap, sb, false);
        sb = sb->next;
    }
    heap->purge_next = sb;
    return sb != NULL;
}

struct superblock *supply_purge_one(struct heap *heap, struct superblock *sb) {
    struct superblock *next = sb->next;
    purge(heap, sb, true);
    if (superblock_is_empty(sb)) {
        supply_unlink(heap, sb);
        pool_give(sb);
    }
    return next;
}

void supply_purge_all(struct heap *heap) {
    for (struct superblock *sb = heap->superblocks; sb != NULL;)
        sb = supply_purge_one(heap, sb);
}

bool supply_is_valid(const struct heap *heap) {
    size_t n = 0;
    size_t n_empty = 0;
    size_t n_units = 0;
    size_t n_dirty = 0;
    for (const struct superblock *sb = heap->superblocks; sb != NULL; sb = sb->next) {
        if (superblock_owner(sb) != heap || owner_of_any((uintptr_t)sb) != heap->number ||
            sb->bucket != bucket_of(sb) || !superblock_is_valid(sb))
            return false;
        n++;
        n_empty += superblock_is_empty(sb);
        n_units += units_in_use(sb);
        n_dirty += sb->n_dirty;
    }
    size_t n_bucketed = 0;
    for (size_t bucket = 0; bucket < N_BUCKETS; bucket++)
        for (const struct superblock *sb = heap->buckets[bucket]; sb != NULL; sb = sb->bucket_next)
            n_bucketed += sb->bucket == bucket;
    return n == heap->n_superblocks && n_bucketed == n && n_empty == heap->n_empty &&
           n_units == heap->n_units && n_dirty == heap->n_dirty;
}
