/* registry.c - heaps without a thread; see registry.h.
 *
 * A new heap lies in the head of a superblock, its first, so that a thread with a few blocks
 * touches two pages.  That superblock is never unmapped, as the heap never is; but it may go to
 * other heaps, as others do.
 */
#include "thread/registry.h"

#include "base/options.h"
#include "heap/supply.h"
#include "heap/validate.h"
#include "system/lock.h"
#include "system/os.h"

/* All state of this module. */
static struct {
    struct lock lock;     /* to take heaps off the lists */
    size_t n_heaps;       /* atomic: ever made */
    struct heap *orphans; /* atomic, both; through next, newest first */
    struct heap *idle;
} registry;

static struct heap *first_of(struct heap **list) {
    return __atomic_load_n(list, __ATOMIC_ACQUIRE);
}

/* Needs no lock: heaps are taken off under it, so none leaves and comes back meanwhile. */
static void push(struct heap **list, struct heap *heap) {
    struct heap *first = __atomic_load_n(list, __ATOMIC_RELAXED);
    do {
        heap->next = first;
    } while (
        !__atomic_compare_exchange_n(list, &first, heap, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}

/* Take `heap` off the list, where it is; others may come before it meanwhile. */
static void take_off(struct heap **list, struct heap *heap) {
    struct heap *before = heap;
    if (__atomic_compare_exchange_n(list, &before, heap->next, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return;
    while (before->next != heap)
        before = before->next;
    before->next = heap->next;
}

static struct heap *pop(struct heap **list) {
    struct heap *heap = first_of(list);
    if (heap != NULL)
        take_off(list, heap);
    return heap;
}

static bool has(struct heap **list, const struct heap *wanted) {
    for (struct heap *heap = first_of(list); heap != NULL; heap = heap->next)
        if (heap == wanted)
            return true;
    return false;
}

/* A new thread takes no heap that leaves it less than half of thread_max. */
static bool may_inherit(const struct heap *orphan) {
    return options.adopt != ADOPT_NEVER && orphan != NULL &&
           (options.thread_max == 0 || orphan->n_units <= options.thread_max / 2 >> UNIT_SHIFT);
}

static struct heap *take_locked(struct heap *wanted) {
    /* Only orphans may be looked into. */
    struct heap *heap = has(&registry.orphans, wanted) ? wanted : NULL;
    if (!may_inherit(heap))
        heap = first_of(&registry.orphans);
    if (!may_inherit(heap))
        return pop(&registry.idle);
    take_off(&registry.orphans, heap);
    return heap;
}

struct heap *registry_take(struct heap *wanted) {
    lock_take(&registry.lock);
    struct heap *heap = take_locked(wanted);
    lock_release(&registry.lock);
    return heap;
}

struct heap *registry_take_orphan(void) {
    lock_take(&registry.lock);
    struct heap *heap = pop(&registry.orphans);
    lock_release(&registry.lock);
    return heap;
}

struct heap *registry_add(void) {
    struct superblock *sb = superblock_create_for_heap(heap_bytes());
    struct heap *heap =
        sb != NULL ? superblock_heap_place(sb) : os_map(round_up(heap_bytes(), os_page_bytes()));
    if (heap == NULL)
        return NULL;
    size_t number = OWNER_FIRST + __atomic_fetch_add(&registry.n_heaps, 1, __ATOMIC_RELAXED);
    heap_init(heap, (uint8_t)(number <= OWNER_LAST ? number : OWNER_IN_HEAD));
    if (sb != NULL)
        supply_link(heap, sb);
    return heap;
}

void registry_leave(struct heap *heap) {
    push(heap->superblocks != NULL ? &registry.orphans : &registry.idle, heap);
}

static bool is_due(const struct heap *heap, uint64_t now_ms) {
    bool has_mail =
        heap->pending != NULL || __atomic_load_n(&heap->inbox, __ATOMIC_RELAXED) != NULL;
    return has_mail ||
           (heap->superblocks != NULL && heap->purge_ms != 0 && now_ms >= heap->purge_ms);
}

/* Move up to `n` heaps that are due to *taken; returns how many were not. */
static size_t take_due_locked(struct heap **list, uint64_t now_ms, size_t n, struct heap **taken) {
    for (struct heap *heap = first_of(list), *next; n > 0 && heap != NULL; heap = next) {
        next = heap->next;
        if (!is_due(heap, now_ms))
            continue;
        take_off(list, heap);
        heap->next = *taken;
        *taken = heap;
        n--;
    }
    return n;
}

bool registry_visit(void (*visit)(struct heap *heap, uint64_t now_ms), uint64_t now_ms, size_t n) {
    struct heap *due = NULL; /* oldest first */
    if (!lock_take_or_try(&registry.lock, n == SIZE_MAX))
        return true;
    n = take_due_locked(&registry.idle, now_ms, n, &due);
    n = take_due_locked(&registry.orphans, now_ms, n, &due);
    lock_release(&registry.lock);
    for (struct heap *next; due != NULL; due = next) {
        next = due->next;
        visit(due, now_ms);
        registry_leave(due);
    }
    return n == 0;
}

bool registry_has_orphans(void) {
    return __atomic_load_n(&registry.orphans, __ATOMIC_RELAXED) != NULL;
}

size_t registry_count_orphans(void) {
    size_t n = 0;
    lock_take(&registry.lock);
    for (struct heap *heap = first_of(&registry.orphans); heap != NULL; heap = heap->next)
        n++;
    lock_release(&registry.lock);
    return n;
}

size_t registry_count(void) {
    return __atomic_load_n(&registry.n_heaps, __ATOMIC_RELAXED);
}

bool registry_is_valid(void) {
    bool valid = true;
    lock_take(&registry.lock);
    for (struct heap *heap = first_of(&registry.orphans); heap != NULL; heap = heap->next)
        valid = valid && heap_is_valid(heap);
    lock_release(&registry.lock);
    return valid;
}

void registry_lock(void) {
    lock_take(&registry.lock);
}

void registry_unlock(void) {
    lock_release(&registry.lock);
}
