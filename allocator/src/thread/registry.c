/* registry.c - heaps without a thread; see registry.h.
 *
 * A new heap lies in the head of a superblock, its first, so that a thread with a few blocks
 * touches two pages.  That superblock is never unmapped, as the heap never is; but it may go to
 * other heaps, as others do.
 *
 * A thread whose number was another's before may read that other's superblocks' old bytes in the
 * owner map no more: they were rewritten before the number was given back, by a release that the
 * acquire of its taking sees.
 */
#include "thread/registry.h"

#include "base/options.h"
#include "heap/supply.h"
#include "heap/validate.h"
#include "system/lock.h"
#include "system/os.h"
#include "thread/inbox.h"

enum {
    N_NUMBERS = OWNER_LAST - OWNER_FIRST + 1,
    N_LOOKED_AT = 128,  /* heaps of each list, by one visit */
    N_ORPHANS_MOST = 16 /* before they are merged */
};

/* Heaps without a thread. */
struct list {
    struct heap *first; /* atomic; through next, newest first */
    struct heap *turn;  /* whose turn it is to be looked at; NULL: the first's */
    size_t n;           /* atomic */
};

/* All state of this module. */
static struct {
    struct lock lock;  /* to take heaps off the lists */
    size_t n_heaps;    /* atomic: ever made */
    size_t n_threads;  /* atomic: heaps that have one, or lost it in a fork */
    size_t n_lost;     /* atomic: ... the latter */
    uint64_t taken[4]; /* atomic: a bit for each number that a heap has */
    struct heap *made; /* atomic: all, through next_made */
    struct list orphans;
    struct list idle;
} registry;

/* --- numbers --- */

static uint8_t take_number(void) {
    for (size_t i = 0; i < 4; i++) {
        uint64_t taken = __atomic_load_n(&registry.taken[i], __ATOMIC_RELAXED);
        while (~taken != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(~taken);
            size_t number = OWNER_FIRST + i * 64 + bit;
            if (number > OWNER_LAST)
                break;
            if (__atomic_compare_exchange_n(&registry.taken[i], &taken, taken | (uint64_t)1 << bit,
                                            true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
                return (uint8_t)number;
        }
    }
    return OWNER_IN_HEAD;
}

static void give_number(uint8_t number) {
    size_t at = (size_t)number - OWNER_FIRST;
    __atomic_fetch_and(&registry.taken[at / 64], ~((uint64_t)1 << at % 64), __ATOMIC_RELEASE);
}

static void set_number(struct heap *heap, uint8_t number) {
    heap->number = number;
    for (struct superblock *sb = heap->superblocks; sb != NULL; sb = sb->next)
        superblock_set_owner(sb, heap, number);
}

/* A heap that gets a thread. */
static void begin(struct heap *heap) {
    __atomic_add_fetch(&registry.n_threads, 1, __ATOMIC_RELAXED);
    uint8_t number = heap->number == OWNER_IN_HEAD ? take_number() : heap->number;
    if (number != heap->number)
        set_number(heap, number);
}

void registry_end(struct heap *heap) {
    uint8_t number = heap->number;
    __atomic_sub_fetch(&registry.n_threads, 1, __ATOMIC_RELAXED);
    if (number == OWNER_IN_HEAD || registry_count() <= N_NUMBERS)
        return;
    set_number(heap, OWNER_IN_HEAD);
    give_number(number);
}

/* --- lists --- */

static struct heap *first_of(struct list *list) {
    return __atomic_load_n(&list->first, __ATOMIC_ACQUIRE);
}

/* Needs no lock: heaps are taken off under it, so none leaves and comes back meanwhile. */
static void push(struct list *list, struct heap *heap) {
    struct heap *first = __atomic_load_n(&list->first, __ATOMIC_RELAXED);
    __atomic_add_fetch(&list->n, 1, __ATOMIC_RELAXED);
    do {
        heap->next = first;
    } while (!__atomic_compare_exchange_n(&list->first, &first, heap, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

/* Take `heap` off the list, where it is, behind `before` if that is not NULL; others may come
 * before it meanwhile. */
static void take_off(struct list *list, struct heap *heap, struct heap *before) {
    struct heap *first = heap;
    __atomic_sub_fetch(&list->n, 1, __ATOMIC_RELAXED);
    if (list->turn == heap)
        list->turn = heap->next;
    if (before == NULL && __atomic_compare_exchange_n(&list->first, &first, heap->next, false,
                                                      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        return;
    if (before == NULL)
        before = first;
    while (before->next != heap)
        before = before->next;
    before->next = heap->next;
}

static struct heap *pop(struct list *list) {
    struct heap *heap = first_of(list);
    if (heap != NULL)
        take_off(list, heap, NULL);
    return heap;
}

static bool has(struct list *list, const struct heap *wanted) {
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
    take_off(&registry.orphans, heap, NULL);
    return heap;
}

struct heap *registry_take(struct heap *wanted) {
    lock_take(&registry.lock);
    struct heap *heap = take_locked(wanted);
    lock_release(&registry.lock);
    if (heap != NULL)
        begin(heap);
    return heap;
}

struct heap *registry_take_again(struct heap *heap) {
    lock_take(&registry.lock);
    struct list *list = has(&registry.orphans, heap) ? &registry.orphans : &registry.idle;
    if (has(list, heap))
        take_off(list, heap, NULL);
    else
        heap = take_locked(NULL);
    lock_release(&registry.lock);
    if (heap != NULL)
        begin(heap);
    return heap;
}

struct heap *registry_take_orphan(void) {
    lock_take(&registry.lock);
    struct heap *heap = pop(&registry.orphans);
    lock_release(&registry.lock);
    return heap;
}

static struct heap *last_of(struct list *list) {
    struct heap *heap = first_of(list);
    while (heap != NULL && heap->next != NULL)
        heap = heap->next;
    return heap;
}

struct heap *registry_take_for_merge(void) {
    bool may_merge = options.adopt != ADOPT_NEVER && options.thread_max == 0;
    if (!may_merge || __atomic_load_n(&registry.orphans.n, __ATOMIC_RELAXED) < N_ORPHANS_MOST)
        return NULL;
    lock_take(&registry.lock);
    struct heap *heap = last_of(&registry.orphans);
    if (heap != NULL)
        take_off(&registry.orphans, heap, NULL);
    lock_release(&registry.lock);
    return heap;
}

struct heap *registry_next(const struct heap *heap) {
    return heap != NULL ? heap->next_made : __atomic_load_n(&registry.made, __ATOMIC_ACQUIRE);
}

static void enlist(struct heap *heap) {
    heap->next_made = __atomic_load_n(&registry.made, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&registry.made, &heap->next_made, heap, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

struct heap *registry_add(void) {
    struct superblock *sb = superblock_create_for_heap(heap_bytes());
    struct heap *heap =
        sb != NULL ? superblock_heap_place(sb) : os_map(round_up(heap_bytes(), os_page_bytes()));
    if (heap == NULL)
        return NULL;
    __atomic_add_fetch(&registry.n_heaps, 1, __ATOMIC_RELAXED);
    heap_init(heap, OWNER_IN_HEAD);
    enlist(heap);
    begin(heap);
    if (sb != NULL)
        supply_link(heap, sb);
    return heap;
}

void registry_leave(struct heap *heap) {
    push(heap->superblocks != NULL ? &registry.orphans : &registry.idle, heap);
}

static bool is_due(const struct heap *heap, uint64_t now_ms) {
    return inbox_has_any(heap) ||
           (heap->superblocks != NULL && heap->purge_ms != 0 && now_ms >= heap->purge_ms);
}

/* Move up to `n` heaps that are due to *taken, of the parked ones one or all; returns how many. */
static size_t take_due_locked(struct list *list, uint64_t now_ms, size_t n, struct heap **taken) {
    bool looks_at_all = n == SIZE_MAX;
    struct heap *before = NULL;
    struct heap *heap = looks_at_all || list->turn == NULL ? first_of(list) : list->turn;
    size_t n_taken = 0;
    for (size_t i = 0; n_taken < n && heap != NULL && (looks_at_all || i < N_LOOKED_AT); i++) {
        struct heap *next = heap->next;
        if (is_due(heap, now_ms) || (looks_at_all && heap->is_parked)) {
            take_off(list, heap, before);
            heap->next = *taken;
            *taken = heap;
            n_taken++;
            if (heap->is_parked && !looks_at_all)
                n = n_taken;
        } else {
            before = heap;
        }
        heap = next;
    }
    list->turn = heap;
    return n_taken;
}

bool registry_visit(bool (*visit)(struct heap *heap, uint64_t now_ms), uint64_t now_ms, size_t n) {
    struct heap *due = NULL; /* oldest first */
    if (!lock_take_or_try(&registry.lock, n == SIZE_MAX))
        return true;
    take_due_locked(&registry.idle, now_ms, n, &due);
    take_due_locked(&registry.orphans, now_ms, n, &due);
    bool is_left = registry.idle.turn != NULL || registry.orphans.turn != NULL;
    lock_release(&registry.lock);
    for (struct heap *next; due != NULL; due = next) {
        next = due->next;
        is_left = visit(due, now_ms) || is_left;
        registry_leave(due);
    }
    return is_left;
}

bool registry_has_orphans(void) {
    return __atomic_load_n(&registry.orphans.first, __ATOMIC_RELAXED) != NULL;
}

size_t registry_count_orphans(void) {
    return __atomic_load_n(&registry.orphans.n, __ATOMIC_RELAXED);
}

size_t registry_count(void) {
    return __atomic_load_n(&registry.n_heaps, __ATOMIC_RELAXED);
}

size_t registry_count_with_lost(void) {
    return __atomic_load_n(&registry.n_threads, __ATOMIC_RELAXED);
}

size_t registry_count_threads(void) {
    size_t n = registry_count_with_lost();
    size_t n_lost = __atomic_load_n(&registry.n_lost, __ATOMIC_RELAXED);
    /* A handler that forks while its thread gets or leaves a heap counts that as lost. */
    return n > n_lost ? n - n_lost : 1;
}

bool registry_has_threads(void) {
    return registry_count_with_lost() > __atomic_load_n(&registry.n_lost, __ATOMIC_RELAXED);
}

void registry_forget_others(bool has_heap) {
    size_t n = registry_count_with_lost();
    if (n > has_heap)
        __atomic_store_n(&registry.n_lost, n - has_heap, __ATOMIC_RELAXED);
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
