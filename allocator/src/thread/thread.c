/* thread.c - heaps and threads: start, attach, detach, orphans, adoption.
 *
 * A new heap lies in the head of a superblock, its first, so that a thread with a few blocks
 * touches two pages.  Heaps are never unmapped, because other threads may still send blocks to
 * them, so that superblock never is either; but it may go to other heaps, as others do.
 * When a thread ends, its heap, trimmed, becomes an orphan if it still has
 * superblocks (blocks in use by others), else idle.  A new thread takes the
 * orphan that was left last, whole, which costs nothing; a thread that needs
 * memory takes orphans apart, one superblock at a time.
 *
 * The end of a thread is seen by a pthread key.  Destructors that run after ours
 * may still allocate: they get a heap again and our destructor is run again.
 */
#include "thread/thread.h"

#include <pthread.h>

#include "base/options.h"
#include "heap/supply.h"
#include "memory/harden.h"
#include "memory/large.h"
#include "memory/pool.h"
#include "memory/tray.h"
#include "system/lock.h"
#include "system/os.h"
#include "thread/fork.h"
#include "thread/remote.h"

/* All state of this module. */
static struct {
    struct lock lock; /* of everything here */
    bool started;     /* options, tables and owner map are in place */
    bool has_key;
    bool watches_fork;
    size_t n_heaps;       /* ever made; atomic */
    struct heap *orphans; /* no thread, has superblocks; through next, newest first */
    struct heap *idle;    /* no thread, no superblocks */
    pthread_key_t key;    /* its destructor sees threads end */
} threads;

static void detach(void *heap);

COLD static void print_configuration(void) {
    char buffer[4096];
    struct text t = {buffer, sizeof buffer, 0};
    text_string(&t, "exgen: configuration ");
    options_write_json(&t, &options);
    text_string(&t, "\n");
    text_to_stderr(&t);
}

static bool start_locked(void) {
    if (threads.started)
        return true;
    os_init();
    options_load();
    if (!layout_init(options.superblock_size))
        return false;
    size_class_init(&classes, &options, layout.n_units);
    tray_init();
    threads.has_key = THREADS && pthread_key_create(&threads.key, detach) == 0;
    threads.started = true;
    if (options.print_conf)
        print_configuration();
    return true;
}

bool allocator_start(void) {
    lock_take(&threads.lock);
    bool started = start_locked();
    lock_release(&threads.lock);
    return started;
}

/* --- heaps without a thread --- */

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

static struct heap *make_heap(void) {
    struct superblock *sb = superblock_create_for_heap(heap_bytes());
    struct heap *heap =
        sb != NULL ? superblock_heap_place(sb) : os_map(round_up(heap_bytes(), os_page_bytes()));
    if (heap == NULL)
        return NULL;
    size_t number = OWNER_FIRST + threads.n_heaps;
    __atomic_store_n(&threads.n_heaps, threads.n_heaps + 1, __ATOMIC_RELAXED);
    heap_init(heap, (uint8_t)(number <= OWNER_LAST ? number : OWNER_IN_HEAD));
    if (sb != NULL)
        supply_link(heap, sb);
    return heap;
}

/* A new thread takes no heap that leaves it less than half of thread_max. */
static bool may_inherit(const struct heap *orphan) {
    return options.adopt != ADOPT_NEVER && orphan != NULL &&
           (options.thread_max == 0 || orphan->n_units <= options.thread_max / 2 >> UNIT_SHIFT);
}

/* Take `heap` off the list; NULL if it is not there. */
static struct heap *pop_this(struct heap **list, const struct heap *heap) {
    while (*list != NULL && *list != heap)
        list = &(*list)->next;
    return pop(list);
}

static struct heap *find_heap_locked(const struct heap *wanted) {
    if (!start_locked())
        return NULL;
    if (!THREADS && threads.n_heaps > 0)
        fatal("a second thread called libexgen-st, which is for programs with one; use libexgen",
              NULL);
    /* Only orphans may be looked into. */
    struct heap *heap = wanted != NULL ? pop_this(&threads.orphans, wanted) : NULL;
    if (heap != NULL && !may_inherit(heap)) {
        push(&threads.orphans, heap);
        heap = NULL;
    }
    if (heap == NULL && may_inherit(threads.orphans))
        heap = pop(&threads.orphans);
    if (heap == NULL)
        heap = pop(&threads.idle);
    return heap != NULL ? heap : make_heap();
}

/* --- a thread's time --- */

struct heap *thread_attach_to(const struct heap *wanted) {
    lock_take(&threads.lock);
    struct heap *heap = find_heap_locked(wanted);
    bool watch_fork = heap != NULL && !threads.watches_fork;
    if (watch_fork)
        threads.watches_fork = true;
    lock_release(&threads.lock);
    if (heap == NULL)
        return NULL;
    /* With checks on, or a number that is not its own, free never takes the fast path. */
    local.number = options.check || heap->number == OWNER_IN_HEAD ? OWNER_NOBODY : heap->number;
    local.own_number = local.number;
    local.heap = heap;
    /* These may allocate, hence come last. */
    if (threads.has_key)
        pthread_setspecific(threads.key, heap);
    if (watch_fork)
        fork_watch();
    return heap;
}

struct heap *thread_attach(void) {
    return thread_attach_to(NULL);
}

/* The heap's owner is gone or is us: leave nothing behind that could be free. */
static void clean_up(struct heap *heap) {
    remote_drain_slowly(heap, SIZE_MAX);
    heap_trim(heap);
    for (struct superblock *sb = heap->superblocks, *next; sb != NULL; sb = next) {
        next = sb->next;
        if (superblock_is_empty(sb)) {
            supply_unlink(heap, sb);
            pool_give(sb);
        }
    }
}

static void shelve(struct heap *heap) {
    lock_take(&threads.lock);
    push(heap->superblocks != NULL ? &threads.orphans : &threads.idle, heap);
    lock_release(&threads.lock);
}

static void detach(void *value) {
    struct heap *heap = value;
    if (heap != local.heap)
        return;
    if (heap->quarantine != NULL)
        quarantine_flush(heap);
    heap_return_lists(heap, &local);
    remote_flush(heap);
    clean_up(heap);
    local.heap = NULL;
    local.number = local.own_number = OWNER_NOBODY;
    local.mixed = NULL;
    local.has_ended = true;
    shelve(heap);
}

bool thread_adopt(struct heap *heap) {
    if (!THREADS || options.adopt != ADOPT_ANY || !thread_has_orphans())
        return false;
    lock_take(&threads.lock);
    struct heap *orphan = pop(&threads.orphans);
    lock_release(&threads.lock);
    if (orphan == NULL)
        return false;
    clean_up(orphan);
    struct superblock *sb = orphan->superblocks;
    if (sb != NULL) {
        heap_unlink_slabs(orphan, sb);
        supply_unlink(orphan, sb);
        supply_link(heap, sb);
        heap_link_slabs(heap, sb);
    }
    shelve(orphan);
    return sb != NULL;
}

bool thread_has_orphans(void) {
    return __atomic_load_n(&threads.orphans, __ATOMIC_RELAXED) != NULL;
}

static bool has_mail(const struct heap *heap) {
    return heap->pending != NULL || __atomic_load_n(&heap->inbox, __ATOMIC_RELAXED) != NULL;
}

void thread_collect(uint64_t now_ms) {
    if (!THREADS)
        return;
    lock_take(&threads.lock);
    /* A heap without superblocks only sends on what came too late. */
    for (struct heap *heap = threads.idle; heap != NULL; heap = heap->next)
        if (has_mail(heap))
            clean_up(heap);
    struct heap **link = &threads.orphans;
    while (*link != NULL) {
        struct heap *heap = *link;
        if (has_mail(heap))
            clean_up(heap);
        if (heap->purge_ms != 0 && now_ms >= heap->purge_ms)
            supply_purge(heap, now_ms);
        if (heap->superblocks != NULL) {
            link = &heap->next;
        } else {
            __atomic_store_n(link, heap->next, __ATOMIC_RELAXED);
            push(&threads.idle, heap);
        }
    }
    lock_release(&threads.lock);
}

void thread_lock_all(void) {
    lock_take(&threads.lock);
    exchange_lock();
    pool_lock();
    large_lock();
    superblock_lock();
}

void thread_unlock_all(void) {
    superblock_unlock();
    large_unlock();
    pool_unlock();
    exchange_unlock();
    lock_release(&threads.lock);
}

bool thread_orphans_are_valid(void) {
    bool valid = true;
    lock_take(&threads.lock);
    for (struct heap *heap = threads.orphans; heap != NULL; heap = heap->next)
        valid = valid && heap_is_valid(heap);
    lock_release(&threads.lock);
    return valid;
}

size_t thread_count_heaps(void) {
    return __atomic_load_n(&threads.n_heaps, __ATOMIC_RELAXED);
}

size_t thread_count_orphans(void) {
    size_t n = 0;
    lock_take(&threads.lock);
    for (struct heap *heap = threads.orphans; heap != NULL; heap = heap->next)
        n++;
    lock_release(&threads.lock);
    return n;
}
