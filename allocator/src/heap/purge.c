/* purge.c - looks at a heap's trays and superblocks; see purge.h. */
#include "heap/purge.h"

#include "base/options.h"
#include "heap/kept.h"
#include "heap/sparse.h"
#include "heap/supply.h"
#include "heap/trays.h"

enum {
    N_HELD = 8 /* looks in a row that may leave memory alone */
};

/* There is more to look for as long as there is memory that ages. */
static void schedule_next(struct heap *heap, uint64_t now_ms) {
    bool may_age = heap->n_dirty > 0 || heap->n_trays > 0;
    heap->purge_ms = may_age ? now_ms + options.purge_delay : 0;
    kept_set_limit(heap, 0);
}

/* Near the highest point so far, what is free is likely to be used again ... */
static bool is_near_peak(const struct heap *heap) {
    size_t n_in_use = heap->n_units - (kept_bytes(heap) >> UNIT_SHIFT);
    return n_in_use >= heap->n_units_peak - heap->n_units_peak / 16;
}

/* ... and free units, which are not among those in use, do no harm. */
static bool is_below_peak(const struct heap *heap) {
    return heap->n_units + heap->n_dirty <= heap->n_units_peak;
}

void purge_begin(struct heap *heap, uint64_t now_ms, enum hold most) {
    bool may_hold = most != HOLD_NOTHING && heap->n_held < N_HELD;
    bool holds_all = most == HOLD_ALL && may_hold && is_near_peak(heap);
    if (most != HOLD_NOTHING && !holds_all)
        heap_trim(heap, KEPT_AT_ONCE);
    bool holds_units = may_hold && is_near_peak(heap) && is_below_peak(heap);
    heap->n_held = holds_all || holds_units ? (uint8_t)(heap->n_held + 1) : 0;
    heap->purge_next = holds_units ? NULL : heap->superblocks;
    heap->look_sparse = holds_units && !heap_has_slack(heap) ? NULL : heap->superblocks;
    heap->looks = true;
    heap->has_ageing_slabs = false;
    heap->look_kept = holds_all ? 0 : kept_bytes(heap);
    if (heap->look_kept > 0)
        heap->kept.n_taken = heap->kept.n_until_tick;
    heap_set_high(heap, heap->n_units_high);
    if (holds_all)
        trays_look_none(heap);
    else
        trays_look_begin(heap);
    schedule_next(heap, now_ms);
}

/* What is kept is given back before a look at where it lies; of what the look found, or as much. */
static bool give_back_kept(struct heap *heap) {
    enum {
        BYTES = KEPT_AT_ONCE / 4 /* as a thread takes four steps at a time */
    };
    size_t n = heap->look_kept < kept_bytes(heap) ? heap->look_kept : kept_bytes(heap);
    if (n > 0)
        kept_give_back(heap, BYTES);
    heap->look_kept = n > BYTES ? n - BYTES : 0;
    return n > 0;
}

void purge_step(struct heap *heap) {
    if (!give_back_kept(heap) && !trays_look_step(heap) && !sparse_look_step(heap))
        heap->looks = supply_purge_step(heap);
    if (!heap->looks && heap->has_ageing_slabs)
        supply_schedule_purge(heap);
}

void purge_whole(struct heap *heap, uint64_t now_ms) {
    purge_begin(heap, now_ms, HOLD_NOTHING);
    while (heap->looks)
        purge_step(heap);
    schedule_next(heap, now_ms);
}
