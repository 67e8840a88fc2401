/* visit.c - the visitor's part; see visit.h. */
#include "heap/visit.h"

#include "system/lock.h"
#include "system/os.h"

/* All state of this module. */
static struct {
    struct lock lock;  /* held by the visitor */
    int32_t n_waiting; /* atomic: owners that wait for it */
} visits;

void heap_wait_for_visitor(struct heap *heap) {
    uint32_t entries = heap->entries;
    if ((entries & ENTRIES_INSIDE) > 1)
        return; /* the visitor sees that, and leaves */
    __atomic_add_fetch(&visits.n_waiting, 1, __ATOMIC_RELAXED);
    do {
        __atomic_store_n(&heap->entries, entries - 1, __ATOMIC_RELEASE);
        lock_take(&visits.lock);
        lock_release(&visits.lock);
        __atomic_store_n(&heap->entries, entries, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } while (__atomic_load_n(&heap->has_visitor, __ATOMIC_ACQUIRE));
    __atomic_sub_fetch(&visits.n_waiting, 1, __ATOMIC_RELAXED);
}

void heap_visits_forget_owners(void) {
    __atomic_store_n(&visits.n_waiting, 0, __ATOMIC_RELAXED);
}

bool heap_visitor_is_awaited(void) {
    return __atomic_load_n(&visits.n_waiting, __ATOMIC_RELAXED) > 0;
}

void heap_set_occupied(struct heap *heap, bool is_occupied) {
    if (is_occupied) /* what was seen is of another thread */
        __atomic_store_n(&heap->seen_ms, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&heap->is_occupied, is_occupied, __ATOMIC_RELEASE);
}

bool heap_is_occupied(const struct heap *heap) {
    return __atomic_load_n(&heap->is_occupied, __ATOMIC_ACQUIRE);
}

static bool may_visit(const struct heap *heap) {
    return (__atomic_load_n(&heap->entries, __ATOMIC_ACQUIRE) & ENTRIES_INSIDE) == 0 &&
           !__atomic_load_n(&heap->is_at_kept, __ATOMIC_ACQUIRE) && heap_is_occupied(heap);
}

size_t heap_visit(struct heap *const *heaps, size_t n, void (*work)(struct heap *heap)) {
    ASSERT(n <= N_VISITED_MOST);
    size_t n_visited = 0;
    for (size_t i = 0; i < n; i++)
        __atomic_store_n(&heaps[i]->has_visitor, true, __ATOMIC_RELAXED);
    bool is_fenced = n > 0 && os_fence_threads();
    for (size_t i = 0; i < n; i++) {
        bool goes_on = i == 0 || (n_visited == i && !heap_visitor_is_awaited());
        n_visited += goes_on;
        if (goes_on && is_fenced && may_visit(heaps[i]))
            work(heaps[i]);
        __atomic_store_n(&heaps[i]->has_visitor, false, __ATOMIC_RELEASE);
    }
    return n_visited;
}

bool heap_visits_lock(bool waits) {
    return lock_take_or_try(&visits.lock, waits);
}

void heap_visits_unlock(void) {
    lock_release(&visits.lock);
}
