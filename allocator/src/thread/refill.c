/* refill.c - where the next blocks of a heap come from; see refill.h.
 *
 * In this order: blocks freed in the active slab, others' blocks that the thread freed, blocks
 * other threads sent home, partial slabs, blocks in the exchange, untouched memory of the fresh
 * slab, a new slab.  Its units come from the heap's superblocks, from the pool of empty ones, from
 * the heap of a thread that ended, from the system.
 *
 * Everything here is O(1) but for the drain of the inbox (bounded, see remote.c).
 */
#include "thread/refill.h"

#include "base/options.h"
#include "heap/kept.h"
#include "heap/sparse.h"
#include "heap/supply.h"
#include "heap/trays.h"
#include "heap/validate.h"
#include "heap/visit.h"
#include "memory/large.h"
#include "memory/pool.h"
#include "thread/housekeeping.h"
#include "thread/remote.h"
#include "thread/thread.h"
#include "thread/timer.h"

/* --- units --- */

/* Whether `n` more units would be more than the heap ever had in use. */
static bool raises_peak(const struct heap *heap, size_t n) {
    return heap->n_units - heap->kept.n_units + n > heap->n_units_peak;
}

/* Whether the heap may have `n` more units; near its peak and near thread_max it gives back first
 * what it can do without. */
static bool may_grow(struct heap *heap, size_t n) {
    if (raises_peak(heap, n))
        kept_give_back(heap, KEPT_AT_ONCE);
    size_t most = options.thread_max >> UNIT_SHIFT;
    if (options.thread_max == 0 || heap->n_units + heap->n_dirty + n <= most)
        return true;
    housekeeping_give_back(heap);
    return heap->n_units + n <= most;
}

/* Make a superblock of a thread that ended the heap's, with the slabs in it, however full it is;
 * false if there is none to be had. */
static bool adopt(struct heap *heap) {
    bool has_room = options.thread_max == 0 ||
                    heap->n_units + layout.n_units <= options.thread_max >> UNIT_SHIFT;
    return has_room && thread_adopt(heap);
}

/* Blocks that are kept, but hardly used again, go back before there is a new superblock: sizes have
 * changed. */
static struct slab *take_own(struct heap *heap, size_t n, size_t step) {
    struct slab *units = may_grow(heap, n) ? supply_take_own(heap, n, step) : NULL;
    if (units != NULL || !kept_is_stale(heap))
        return units;
    kept_give_back(heap, KEPT_AT_ONCE);
    return supply_take_own(heap, n, step);
}

static struct slab *take_pooled(struct heap *heap, size_t n, size_t step) {
    return may_grow(heap, n) ? supply_take_pooled(heap, n, step) : NULL;
}

/* What is kept may be what a limit has no room beside. */
static COLD struct slab *take_at_last(struct heap *heap, size_t n, size_t step) {
    large_purge_all();
    housekeeping_give_back(heap);
    struct slab *units = supply_take_own(heap, n, step);
    if (units == NULL)
        units = supply_take_pooled(heap, n, step);
    return units != NULL ? units : supply_take_mapped(heap, n, step);
}

/* Units of a new superblock. */
static struct slab *take_mapped(struct heap *heap, size_t n, size_t step) {
    sparse_make_room(heap);
    struct slab *units = supply_take_mapped(heap, n, step);
    return units != NULL ? units : take_at_last(heap, n, step);
}

/* `n` units of one superblock as a slab without class, at a multiple of `step` (supply.h).  NULL if
 * out of memory. */
static struct slab *take_units(struct heap *heap, size_t n, size_t step) {
    struct slab *units = take_own(heap, n, step);
    if (units == NULL)
        units = take_pooled(heap, n, step);
    if (units == NULL)
        units = adopt(heap) ? supply_take_own(heap, n, step) : take_pooled(heap, n, step);
    if (units != NULL || !may_grow(heap, n))
        return units;
    return take_mapped(heap, n, step);
}

/* `n` units in the heap's superblocks: fewer rather than none. */
static struct slab *take_few_own(struct heap *heap, const struct size_class *c, size_t n,
                                 size_t step) {
    struct slab *units = NULL;
    for (; n > 0 && units == NULL; n = size_class_fewer_units(c, n))
        units = take_own(heap, n, step);
    return units;
}

/* --- blocks of a class --- */

/* Cut units, if there are some, into blocks of `class`; false if not. */
static bool add_slab(struct heap *heap, struct slab *units, size_t class) {
    if (units != NULL)
        heap_add_slab(heap, units, class);
    return units != NULL;
}

/* Blocks from a partial slab, from other threads, or from untouched memory. */
static void *take_from_slabs(struct heap *heap, size_t class) {
    void *block = heap_take_partial(heap, class);
    if (block == NULL)
        block = remote_take_anywhere(heap, class);
    return block != NULL ? block : heap_take_fresh(heap, class);
}

/* A new slab, or one of a thread that ended. */
static void *take_from_new_slab(struct heap *heap, size_t class) {
    const struct size_class *c = &classes.of[class];
    size_t n = heap_next_units(heap, class);
    size_t step = c->block_bytes > UNIT_BYTES / 4; /* smaller ones may share a unit with the head */
    void *block = NULL;
    if (add_slab(heap, take_few_own(heap, c, n, step), class) ||
        add_slab(heap, take_pooled(heap, n, step), class) || adopt(heap))
        block = take_from_slabs(heap, class);
    while (block == NULL && add_slab(heap, take_units(heap, n, step), class))
        block = take_from_slabs(heap, class);
    /* What gave no units may have freed blocks. */
    return block != NULL ? block : take_from_slabs(heap, class);
}

static NOINLINE void *refill_slowly(struct heap *heap, size_t class) {
    remote_consider_unmixed(heap);
    void *block = remote_take_freed(heap, class);
    if (block == NULL)
        block = remote_take(heap, class);
    if (block == NULL)
        block = remote_take_sent(heap, class);
    if (block == NULL)
        block = take_from_slabs(heap, class);
    if (block == NULL)
        block = take_from_new_slab(heap, class);
    ASSERT_FULL(heap_is_valid(heap));
    return block;
}

/* The end of a slow path that has its block. */
static void *leave_with(struct heap *heap, void *block) {
    heap_leave(heap);
    if (THREADS && unlikely(timer_is_wanted()))
        thread_start_timer();
    return block;
}

void *refill(struct heap *heap, size_t class) {
    void *block = heap_take_active(heap, class);
    if (block != NULL)
        return block;
    heap_enter(heap);
    housekeeping_tick(heap);
    block = remote_has_none(heap, class) ? heap_take_partial(heap, class) : NULL;
    if (block == NULL)
        block = refill_slowly(heap, class);
    return leave_with(heap, block);
}

/* --- larger blocks --- */

/* Make room on trays before there is a new one: a larger block that is kept is cut, or else all go
 * back that are kept, if few of them were used again or the new tray would raise the peak. */
static bool make_room_on_trays(struct heap *heap, size_t bytes) {
    if (kept_give_back_larger(heap, tray_steps_for(bytes)))
        return true;
    if (!kept_is_stale(heap) && !raises_peak(heap, tray_layout.n_units))
        return false;
    kept_give_back(heap, KEPT_AT_ONCE);
    return true;
}

static void *take_from_tray(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero) {
    void *block = trays_allocate(heap, bytes, alignment, is_zero);
    if (block == NULL && make_room_on_trays(heap, bytes))
        block = trays_allocate(heap, bytes, alignment, is_zero);
    if (block != NULL)
        return block;
    struct slab *units = take_units(heap, tray_layout.n_units, 1);
    if (units != NULL)
        trays_add(heap, units); /* if not, there is room where something was given back */
    return trays_allocate(heap, bytes, alignment, is_zero);
}

static void *take_kept(struct heap *heap, size_t bytes, size_t alignment) {
    size_t step = bytes > tray_layout.largest ? UNIT_BYTES : tray_step_bytes();
    return alignment <= step ? kept_take_near(heap, bytes)
                             : kept_take_aligned(heap, bytes, alignment);
}

/* What is kept, or comes home, first. */
static void *take_freed_run(struct heap *heap, size_t bytes, size_t alignment) {
    void *block = take_kept(heap, bytes, alignment);
    if (block != NULL || !inbox_has_any(heap))
        return block;
    remote_drain(heap);
    return take_kept(heap, bytes, alignment);
}

static void *take_run(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero) {
    housekeeping_tick(heap);
    void *block = take_freed_run(heap, bytes, alignment);
    *is_zero = false;
    if (block != NULL)
        return block;
    if (bytes <= tray_layout.largest && alignment <= UNIT_BYTES) {
        block = take_from_tray(heap, bytes, alignment, is_zero);
    } else {
        size_t step = alignment <= UNIT_BYTES ? 1 : alignment >> UNIT_SHIFT;
        struct slab *units = take_units(heap, (bytes + UNIT_BYTES - 1) >> UNIT_SHIFT, step);
        if (units != NULL)
            block = heap_make_run(units, is_zero);
    }
    ASSERT_FULL(heap_is_valid(heap));
    return block;
}

void *refill_run(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero) {
    heap_enter(heap);
    return leave_with(heap, take_run(heap, bytes, alignment, is_zero));
}

/* Not for a probe for the limit, beside which heap and pool are next to nothing. */
static COLD void *allocate_at_last(struct heap *heap, size_t bytes, size_t alignment,
                                   bool *is_zero) {
    enum {
        SHARE = 64
    };
    size_t most = (heap->n_superblocks + pool_count()) * layout.bytes;
    if ((bytes | alignment) >> ADDRESS_BITS != 0 || most < (bytes + alignment) / SHARE)
        return NULL;
    housekeeping_give_back(heap);
    pool_empty();
    return large_allocate(bytes, alignment, is_zero);
}

void *refill_large(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero) {
    heap_enter(heap);
    housekeeping_tick(heap);
    void *block = large_allocate(bytes, alignment, is_zero);
    if (unlikely(block == NULL))
        block = allocate_at_last(heap, bytes, alignment, is_zero);
    return leave_with(heap, block);
}

bool refill_resize_run(struct heap *heap, struct slab *slab, size_t n_units) {
    size_t n_old = slab->n_units;
    heap_enter(heap);
    bool may_resize = n_units <= n_old || may_grow(heap, n_units - n_old);
    bool is_resized = may_resize && supply_resize_run(heap, slab, n_units);
    heap_leave(heap);
    return is_resized;
}
