/* idle.c - looks at the heaps of other threads; see idle.h and heap/visit.h. */
#include "thread/idle.h"

#include "base/options.h"
#include "heap/kept.h"
#include "heap/supply.h"
#include "heap/visit.h"
#include "thread/registry.h"

enum {
    N_LOOKED_AT = 128, /* heaps, by one look */
    N_PURGED = 16      /* superblocks of a heap, at once */
};

/* All state of this module; while the visits are locked. */
static struct { struct heap *turn; /* whose turn it is to be looked at; NULL: the first's */ } idle;

/* A part of what can be given back; true if it was the last.  The next part follows it, if the
 * heap's thread did nothing in between. */
static bool give_back_part(struct heap *heap) {
    uint32_t entries = __atomic_load_n(&heap->entries, __ATOMIC_RELAXED);
    if (entries != heap->visiting)
        heap->visit_next = NULL;
    heap->visiting = entries;
    kept_give_back(heap, KEPT_AT_ONCE);
    if (kept_bytes(heap) > 0)
        return false;
    heap_trim_idle(heap);
    struct superblock *sb = heap->visit_next != NULL ? heap->visit_next : heap->superblocks;
    for (size_t i = 0; i < N_PURGED && sb != NULL; i++)
        sb = supply_purge_one(heap, sb);
    heap->visit_next = sb;
    if (sb == NULL)
        heap->visited = entries;
    return sb == NULL;
}

/* By a thread that has work of its own: the rest has time until the next visit. */
static void give_back_some(struct heap *heap) {
    give_back_part(heap);
}

/* By one whose work it is, until an owner waits. */
static void give_back_all(struct heap *heap) {
    while (!give_back_part(heap) && !heap_visitor_is_awaited()) {
    }
}

/* How long the heap's thread must have done nothing: twice as long after each visit from which it
 * soon came back.  Where threads are many more than processors most only wait for one. */
static uint64_t rest_ms(const struct heap *heap) {
    return options.purge_delay << heap->n_returns;
}

/* The heap's thread works again. */
static void note_return(struct heap *heap, uint64_t now_ms) {
    enum {
        N_DELAYS = 8,      /* after the visit */
        N_RETURNS_MOST = 4 /* 16 times as long */
    };
    uint64_t seen_ms = __atomic_load_n(&heap->seen_ms, __ATOMIC_RELAXED);
    bool was_visited = heap->seen == heap->visiting;
    if (seen_ms == 0 ||
        (was_visited && now_ms >= seen_ms + rest_ms(heap) + N_DELAYS * options.purge_delay))
        heap->n_returns = 0;
    else if (was_visited && heap->n_returns < N_RETURNS_MOST)
        heap->n_returns++;
}

/* Whether the heap's thread did something since the last visit, and nothing for long enough. */
static bool is_idle(struct heap *heap, uint64_t now_ms) {
    uint32_t entries = __atomic_load_n(&heap->entries, __ATOMIC_RELAXED);
    if (entries == heap->visited || !heap_is_occupied(heap))
        return false;
    if (entries != heap->seen) {
        note_return(heap, now_ms);
        heap->seen = entries;
        __atomic_store_n(&heap->seen_ms, now_ms, __ATOMIC_RELAXED);
    }
    return now_ms >= __atomic_load_n(&heap->seen_ms, __ATOMIC_RELAXED) + rest_ms(heap);
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
    heap_visit(found, n, give_back_some);
    heap_visits_unlock();
}

/* One after the other, with the owners that wait in between. */
static void visit_all(struct heap *const *heaps, size_t n) {
    for (size_t i = 0; i < n;) {
        heap_visits_lock(true);
        i += heap_visit(&heaps[i], n - i, give_back_all);
        heap_visits_unlock();
    }
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
        heap_visits_unlock();
        visit_all(found, n);
    }
}

void idle_give_back_every(uint64_t now_ms) {
    give_back_every(NULL, now_ms);
}

void idle_give_back_all(const struct heap *own) {
    give_back_every(own, 0);
}
