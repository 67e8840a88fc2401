/* idle.c - looks at the heaps of other threads; see idle.h and heap/visit.h. */
#include "thread/idle.h"

#include "base/options.h"
#include "heap/kept.h"
#include "heap/supply.h"
#include "heap/visit.h"
#include "thread/registry.h"

enum {
    N_LOOKED_AT = 128 /* heaps, by one look */
};

/* All state of this module; while the visits are locked. */
static struct { struct heap *turn; /* whose turn it is to be looked at; NULL: the first's */ } idle;

static void give_back(struct heap *heap) {
    heap_trim_idle(heap);
    supply_purge_all(heap);
    heap->visited = __atomic_load_n(&heap->entries, __ATOMIC_RELAXED);
}

/* Whether the heap's thread did something since the last visit, and nothing for purge_delay. */
static bool is_idle(struct heap *heap, uint64_t now_ms) {
    uint32_t entries = __atomic_load_n(&heap->entries, __ATOMIC_RELAXED);
    if (entries == heap->visited || !heap_is_occupied(heap))
        return false;
    if (entries != heap->seen) {
        heap->seen = entries;
        heap->seen_ms = now_ms;
    }
    return now_ms >= heap->seen_ms + options.purge_delay;
}

void idle_give_back(const struct heap *own, uint64_t now_ms) {
    struct heap *found[N_VISITED_MOST];
    size_t n = 0;
    if (!heap_visits_lock(false))
        return;
    struct heap *heap = idle.turn != NULL ? idle.turn : registry_next(NULL);
    for (size_t i = 0; i < N_LOOKED_AT && heap != NULL && n < N_VISITED_MOST; i++) {
        if (heap != own && is_idle(heap, now_ms))
            found[n++] = heap;
        heap = registry_next(heap);
    }
    idle.turn = heap;
    heap_visit(found, n, give_back);
    heap_visits_unlock();
}

/* All heaps but `own`: those that are idle, or with `now_ms` 0 all that have a thread. */
static void give_back_every(const struct heap *own, uint64_t now_ms) {
    struct heap *found[N_VISITED_MOST];
    for (struct heap *heap = THREADS ? registry_next(NULL) : NULL; heap != NULL;) {
        size_t n = 0;
        heap_visits_lock(true);
        for (; heap != NULL && n < N_VISITED_MOST; heap = registry_next(heap))
            if (heap != own && (now_ms > 0 ? is_idle(heap, now_ms) : heap_is_occupied(heap)))
                found[n++] = heap;
        heap_visit(found, n, give_back);
        heap_visits_unlock();
    }
}

void idle_give_back_every(uint64_t now_ms) {
    give_back_every(NULL, now_ms);
}

void idle_give_back_all(const struct heap *own) {
    give_back_every(own, 0);
}
