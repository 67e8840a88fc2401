/* purge.c - looks at a heap's trays and superblocks; see purge.h. */
#include "heap/purge.h"

#include "base/options.h"
#include "heap/kept.h"
#include "heap/sparse.h"
#include "heap/supply.h"
#include "heap/trays.h"

enum {
    N_HELD = 8 /* looks in a row that may pass over free units */
};

/* There is more to look for as long as there is memory that ages. */
static void schedule_next(struct heap *heap, uint64_t now_ms) {
    bool may_age = heap->n_dirty > 0 || heap->n_trays > 0;
    heap->purge_ms = may_age ? now_ms + options.purge_delay : 0;
    kept_set_limit(heap, 0);
}

/* Near the highest point so far, free units are likely to be used again, and do no harm. */
static bool is_near_peak(const struct heap *heap) {
    return heap->n_units + heap->n_dirty <= heap->n_units_peak &&
           heap->n_units - heap->kept.n_units >= heap->n_units_peak - heap->n_units_peak / 16;
}

void purge_begin(struct heap *heap, uint64_t now_ms, bool may_hold) {
    bool holds = may_hold && heap->n_held < N_HELD && is_near_peak(heap);
    heap->n_held = holds ? (uint8_t)(heap->n_held + 1) : 0;
    heap->purge_next = holds ? NULL : heap->superblocks;
    heap->look_sparse = holds ? NULL : heap->superblocks;
    heap->looks = true;
    heap->look_kept = kept_bytes(heap);
    if (heap->look_kept > 0)
        heap->kept.n_taken = heap->kept.n_until_tick;
    heap_set_high(heap, heap->n_units_high);
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
}

void purge_whole(struct heap *heap, uint64_t now_ms) {
    purge_begin(heap, now_ms, false);
    while (heap->looks)
        purge_step(heap);
    schedule_next(heap, now_ms);
}
