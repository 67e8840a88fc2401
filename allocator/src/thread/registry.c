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
    struct lock lock;     /* of everything here */
    size_t n_heaps;       /* ever made; atomic */
    struct heap *orphans; /* through next, newest first; atomic */
    struct heap *idle;
} registry;

static struct heap *pop(struct heap **list) {
    struct heap *heap = *list;
    if (heap != NULL)
        __atomic_store_n(list, heap->next, __ATOMIC_RELAXED);
    return heap;
}

static void push(struct heap **list, struct heap *heap) {
    heap->next = *list;
    __atomic_store_n(list, heap, __ATOMIC_RELAXED);
}

/* Take `heap` off the list; NULL if it is not there. */
static struct heap *pop_this(struct heap **list, const struct heap *heap) {
    while (*list != NULL && *list != heap)
        list = &(*list)->next;
    return pop(list);
}

/* A new thread takes no heap that leaves it less than half of thread_max. */
static bool may_inherit(const struct heap *orphan) {
    return options.adopt != ADOPT_NEVER && orphan != NULL &&
           (options.thread_max == 0 || orphan->n_units <= options.thread_max / 2 >> UNIT_SHIFT);
}

static struct heap *take_locked(const struct heap *wanted) {
    /* Only orphans may be looked into. */
    struct heap *heap = wanted != NULL ? pop_this(&registry.orphans, wanted) : NULL;
    if (heap != NULL && !may_inherit(heap)) {
        push(&registry.orphans, heap);
        heap = NULL;
    }
    if (heap == NULL && may_inherit(registry.orphans))
        heap = pop(&registry.orphans);
    return heap != NULL ? heap : pop(&registry.idle);
}

struct heap *registry_take(const struct heap *wanted) {
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
    lock_take(&registry.lock);
    push(heap->superblocks != NULL ? &registry.orphans : &registry.idle, heap);
    lock_release(&registry.lock);
}

/* Orphans that have no superblocks any more become idle. */
static void sort_orphans(void) {
    struct heap **link = &registry.orphans;
    while (*link != NULL) {
        struct heap *heap = *link;
        if (heap->superblocks != NULL) {
            link = &heap->next;
        } else {
            __atomic_store_n(link, heap->next, __ATOMIC_RELAXED);
            push(&registry.idle, heap);
        }
    }
}

void registry_visit(void (*visit)(struct heap *heap, uint64_t now_ms), uint64_t now_ms) {
    lock_take(&registry.lock);
    for (struct heap *heap = registry.idle; heap != NULL; heap = heap->next)
        visit(heap, now_ms);
    for (struct heap *heap = registry.orphans; heap != NULL; heap = heap->next)
        visit(heap, now_ms);
    sort_orphans();
    lock_release(&registry.lock);
}

bool registry_has_orphans(void) {
    return __atomic_load_n(&registry.orphans, __ATOMIC_RELAXED) != NULL;
}

size_t registry_count_orphans(void) {
    size_t n = 0;
    lock_take(&registry.lock);
    for (struct heap *heap = registry.orphans; heap != NULL; heap = heap->next)
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
    for (struct heap *heap = registry.orphans; heap != NULL; heap = heap->next)
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
