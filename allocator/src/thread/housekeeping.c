/* housekeeping.c - when to look for memory that can go back; see housekeeping.h. */
#include "thread/housekeeping.h"

#include "base/options.h"
#include "heap/kept.h"
#include "heap/purge.h"
#include "heap/supply.h"
#include "memory/large.h"
#include "memory/pool.h"
#include "system/os.h"
#include "thread/exchange.h"
#include "thread/idle.h"
#include "thread/registry.h"
#include "thread/remote.h"
#include "thread/thread.h"
#include "thread/timer.h"

/* A look is due when purge_delay is over and the thread was at work meanwhile: a
 * thread that waited for a processor has not had the chance to use its memory. */
static bool look_is_due(const struct heap *heap, uint64_t now) {
    enum {
        TICKS_AT_WORK = 512, /* slow paths */
        N_DELAYS_IDLE = 8    /* ... or this many times purge_delay */
    };
    return now >= heap->purge_ms &&
           (heap->n_ticks >= TICKS_AT_WORK ||
            now >= heap->purge_ms + (N_DELAYS_IDLE - 1) * options.purge_delay);
}

static bool has_others(void) {
    return THREADS && registry_count_threads() > 1;
}

static bool may_visit(void) {
    return THREADS && registry_count_with_lost() > 1 && options.purge_how != PURGE_NEVER;
}

static void visit_others(struct heap *heap, uint64_t now) {
    if (now < heap->visit_ms || !may_visit())
        return;
    heap->visit_ms = now + options.purge_delay;
    idle_give_back(heap, now);
}

/* `fall_ms` is as far ahead of the clock as falls were given back lately: the rule of a leaky
 * bucket, in the form of the generic cell rate algorithm (ITU-T I.371). */
static bool may_fall(struct heap *heap) {
    enum {
        N_DELAYS = 32, /* between two falls, on average */
        N_AT_ONCE = 4
    };
    uint64_t step = N_DELAYS * options.purge_delay;
    uint64_t now = os_clock_ms();
    if (options.purge_how == PURGE_NEVER || heap->fall_ms > now + (N_AT_ONCE - 1) * step)
        return false;
    heap->fall_ms = (heap->fall_ms > now ? heap->fall_ms : now) + step;
    heap->fall_next = heap->superblocks;
    heap->fall_kept = kept_bytes(heap);
    heap->is_falling = true;
    return true;
}

static void end_fall(struct heap *heap) {
    heap->is_falling = false;
    heap_set_high(heap, heap->n_units);
}

/* A part of what a fall gives back, so that no call takes long: what is kept, then superblocks; of
 * both no more than there were when it began, since blocks are used and kept meanwhile. */
static void fall_further(struct heap *heap) {
    enum {
        N_PURGED = 16 /* superblocks */
    };
    heap_trim(heap, KEPT_AT_ONCE);
    size_t left = heap->fall_kept > KEPT_AT_ONCE ? heap->fall_kept - KEPT_AT_ONCE : 0;
    heap->fall_kept = left < kept_bytes(heap) ? left : kept_bytes(heap);
    for (size_t i = 0; i < N_PURGED && heap->fall_next != NULL && heap->fall_kept == 0; i++)
        heap->fall_next = supply_purge_one(heap, heap->fall_next);
    if (heap->fall_next == NULL)
        end_fall(heap);
}

/* Whether half of what was no longer in use is so again. */
static bool has_grown(const struct heap *heap) {
    size_t n_idle = heap->n_empty_units + (kept_bytes(heap) >> UNIT_SHIFT);
    return heap->n_units > n_idle + (heap->n_units_high + heap->n_units_low) / 2;
}

void housekeeping_fall(struct heap *heap) {
    if (heap->is_falling || may_fall(heap)) {
        fall_further(heap);
        return;
    }
    heap_set_high(heap, heap->n_units);
    heap->n_units_low = 0; /* until the next look */
}

/* Waits for no lock: this runs inside any malloc or free, and its caller may hold what the owner of
 * the lock waits for. */
void housekeeping_step(struct heap *heap) {
    enum {
        STEPS_AT_ONCE = 4, /* of a look; few slow paths are all that a thread has that only frees */
        N_COLLECTED = 64   /* heaps without a thread */
    };
    if (heap->is_falling && has_grown(heap))
        end_fall(heap);
    if (heap->is_falling)
        fall_further(heap);
    if (heap->looks) {
        for (size_t i = 0; i < STEPS_AT_ONCE && heap->looks; i++)
            purge_step(heap);
        return;
    }
    if (thread_has_parked())
        supply_schedule_purge(heap);
    if (heap->purge_ms == 0 && !may_visit())
        return;
    uint64_t now = os_clock_ms();
    visit_others(heap, now);
    if (heap->collects)
        heap->collects = thread_collect(now, N_COLLECTED);
    if (heap->purge_ms == 0 || remote_send_idle_home(now) || !look_is_due(heap, now))
        return;
    heap->n_ticks = 0;
    if (THREADS && timer_is_missing())
        timer_want(true);
    purge_begin(heap, now, has_others() ? HOLD_ALL : HOLD_UNITS);
    heap->collects = thread_collect(now, N_COLLECTED);
    bool is_left = pool_purge(now) || heap->collects;
    is_left = large_purge(now) || is_left;
    if (is_left || exchange_has_any())
        supply_schedule_purge(heap);
}

void housekeeping_give_back(struct heap *heap) {
    remote_drain_slowly(heap, SIZE_MAX);
    heap_trim(heap, SIZE_MAX);
    supply_purge_all(heap);
}
