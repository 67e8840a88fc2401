/* thread.c - heaps and threads: start, attach, detach, adoption.
 *
 * When a thread ends, its heap, trimmed, is left to the registry, or what is in it to the orphan
 * that is oldest, so that there are few of them however many threads end.  A new thread takes the
 * orphan that was left last, whole, which costs nothing; a thread that needs
 * memory takes orphans apart, one superblock at a time.
 *
 * A small heap is parked instead: the next thread has the lists that the one before left, too, so
 * that short threads neither fill nor empty any.  Who takes it for something else, a look after
 * purge_delay for one, puts the blocks back first.
 *
 * The end of a thread is seen by a pthread key.  Destructors that run after ours may still
 * allocate: they get a heap for that one call, since ours may have been run for the last time; the
 * same each time, or every block that they leave would take one.
 */
#include "thread/thread.h"

#include <pthread.h>

#include "base/options.h"
#include "heap/purge.h"
#include "heap/supply.h"
#include "heap/visit.h"
#include "memory/canary.h"
#include "memory/guard.h"
#include "memory/large.h"
#include "memory/nothing.h"
#include "memory/pool.h"
#include "system/lock.h"
#include "system/os.h"
#include "thread/fork.h"
#include "thread/idle.h"
#include "thread/quarantine.h"
#include "thread/registry.h"
#include "thread/remote.h"
#include "thread/timer.h"

/* All state of this module. */
static struct {
    struct lock starting;
    bool has_options; /* also where the rest could not be had yet */
    bool started;     /* atomic: options, tables and owner map are in place */
    size_t n_parked;  /* atomic: heaps */
    bool has_key;
    pthread_key_t key; /* its destructor sees threads end */
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

/* Once: a bad entry of EXGEN_CONF is reported. */
static void load_options(void) {
    if (threads.has_options)
        return;
    os_init();
    options_load();
    if (options.superblock_size < os_page_bytes()) /* it would be unmapped with its neighbours */
        options.superblock_size = os_page_bytes();
    threads.has_options = true;
}

static void make_key(void) {
    if (THREADS && !threads.has_key)
        threads.has_key = pthread_key_create(&threads.key, detach) == 0;
}

/* First of all (initfirst), or in an archive before the program's: see fork.c.  And glibc has room
 * for 32 keys; a later one's value is lost where a thread's first allocation is more room. */
__attribute__((constructor(101))) static void prepare(void) {
    if (!THREADS)
        return;
    fork_watch();
    if (lock_is_needless())
        make_key();
}

static bool start_locked(void) {
    if (threads.started)
        return true;
    load_options();
    if (!layout_init(options.superblock_size))
        return false;
    link_init();
    if (options.purge_how == PURGE_UNMAP)
        os_init_unmapping();
    if (options.secure) {
        guard_init();
        canary_init();
        nothing_init();
    }
    size_class_init(&classes, &options, layout.n_units);
    tray_init();
    heap_largest_run_init();
    make_key();
    __atomic_store_n(&threads.started, true, __ATOMIC_RELEASE);
    if (options.print_conf)
        print_configuration();
    return true;
}

/* The lock is taken by the first thread only, so fork, which is watched from then on, need not
 * know it.  What it calls are cancellation points, which no allocation is. */
bool allocator_start(void) {
    if (__atomic_load_n(&threads.started, __ATOMIC_ACQUIRE))
        return true;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    lock_take(&threads.starting);
    bool started = start_locked();
    lock_release(&threads.starting);
    pthread_setcancelstate(cancel_state, &cancel_state);
    return started;
}

/* --- a thread's time --- */

/* A new heap; what is kept of large blocks may be what a limit has no room beside. */
static struct heap *add_heap(void) {
    struct heap *heap = registry_add();
    if (heap == NULL) {
        large_purge_all();
        heap = registry_add();
    }
    return heap;
}

void thread_end_second(void) {
    fatal("a second thread called libexgen-st, which is for programs with one; use libexgen", NULL);
}

static struct heap *find_heap(struct heap *wanted) {
    if (!allocator_start())
        return NULL;
    thread_expect_only();
    struct heap *heap =
        local.left != NULL ? registry_take_again(local.left) : registry_take(wanted);
    return heap != NULL ? heap : add_heap();
}

/* --- parked heaps --- */

enum {
    N_PARKED_UNITS = 64, /* in slabs of a parked heap, at most */
    N_PARKED_MOST = 8    /* and no more orphans than that, which would be merged */
};

bool thread_has_parked(void) {
    return __atomic_load_n(&threads.n_parked, __ATOMIC_RELAXED) > 0;
}

static bool may_park(const struct heap *heap) {
    bool is_usual = !options.check && options.adopt != ADOPT_NEVER && options.thread_max == 0 &&
                    options.purge_how != PURGE_NEVER && options.purge_delay > 0;
    bool is_small = heap->superblocks != NULL && heap->n_units <= N_PARKED_UNITS;
    if (!THREADS || !is_usual || !is_small || registry_count_orphans() >= N_PARKED_MOST)
        return false;
    if (__atomic_fetch_add(&threads.n_parked, 1, __ATOMIC_RELAXED) < N_PARKED_MOST)
        return true;
    __atomic_sub_fetch(&threads.n_parked, 1, __ATOMIC_RELAXED);
    return false;
}

/* Leave the calling thread's lists in its heap, until the next look at least. */
static void park(struct heap *heap) {
    for (size_t class = 0; class < N_QUICK_CLASSES; class ++) {
        if (local.free[class] == NULL)
            continue;
        heap->bins[class].ready = local.free[class];
        heap->parked_lists |= (uint64_t)1 << class;
        local.free[class] = NULL;
    }
    heap->is_parked = true;
    __atomic_store_n(&heap->purge_ms, 0, __ATOMIC_RELAXED);
    supply_schedule_purge(heap);
}

static void unpark(struct heap *heap, struct local *to) {
    for (uint64_t left = heap->parked_lists; left != 0; left &= left - 1) {
        struct bin *bin = &heap->bins[__builtin_ctzll(left)];
        to->free[__builtin_ctzll(left)] = bin->ready;
        bin->ready = NULL;
    }
    heap->parked_lists = 0;
    heap->is_parked = false;
    __atomic_sub_fetch(&threads.n_parked, 1, __ATOMIC_RELAXED);
}

static void return_parked_lists(struct heap *heap) {
    struct local lists = {.number = OWNER_NOBODY};
    unpark(heap, &lists);
    remote_return_lists(heap, &lists);
    remote_flush(heap);
    heap_trim(heap, SIZE_MAX); /* from outside, blocks that are kept look as if in use */
}

struct heap *thread_attach_to(struct heap *wanted) {
    struct heap *heap = find_heap(wanted);
    if (heap == NULL)
        return NULL;
    /* With checks on, or a number that is not its own, free never takes the fast path. */
    local.number = options.check || heap->number == OWNER_IN_HEAD ? OWNER_NOBODY : heap->number;
    local.own_number = local.number;
    local.heap = heap;
    if (heap->is_parked)
        unpark(heap, &local);
    heap_set_occupied(heap, true);
    /* These may allocate, hence come last. */
    if (threads.has_key && local.left == NULL)
        pthread_setspecific(threads.key, heap);
    fork_watch();
    /* Not at once: the C library frees under its locks. */
    if (THREADS && registry_count_threads() > 1 && timer_is_missing())
        timer_want(true);
    return heap;
}

void thread_start_timer(void) {
    timer_want(false);
    timer_start(thread_look_at_all);
}

struct heap *thread_attach(void) {
    return thread_attach_to(NULL);
}

/* The heap's owner is gone or is us: free up to `n_sent` blocks that others sent, and leave nothing
 * behind that could be free. */
static void clean_up(struct heap *heap, size_t n_sent) {
    if (heap->is_parked)
        return_parked_lists(heap);
    remote_drain_slowly(heap, n_sent);
    heap_trim(heap, SIZE_MAX);
    for (struct superblock *sb = heap->superblocks, *next; sb != NULL; sb = next) {
        next = sb->next;
        if (superblock_is_empty(sb)) {
            supply_unlink(heap, sb);
            pool_give(sb);
        }
    }
}

/* Make a superblock another heap's, with the slabs in it. */
static void move(struct superblock *sb, struct heap *from, struct heap *to) {
    heap_unlink_slabs(from, sb);
    supply_unlink(from, sb);
    supply_link(to, sb);
    heap_link_slabs(to, sb);
}

/* Where there are many orphans already, what is left goes into the oldest; its free memory, which
 * no new thread will want soon, back to the system. */
static void merge(struct heap *heap) {
    struct heap *orphan = heap->superblocks != NULL ? registry_take_for_merge() : NULL;
    if (orphan == NULL)
        return;
    if (orphan->is_parked)
        return_parked_lists(orphan);
    supply_purge_all(heap);
    while (heap->superblocks != NULL)
        move(heap->superblocks, heap, orphan);
    if (orphan->n_dirty > 0 || orphan->n_trays > 0)
        supply_schedule_purge(orphan);
    registry_leave(orphan);
}

static void detach(void *value) {
    struct heap *heap = value;
    bool is_first = local.left == NULL;
    if (heap != local.heap)
        return;
    if (is_first && timer_is_wanted() && registry_count_threads() > 1)
        thread_start_timer();
    heap_enter(heap);
    if (heap->batches != no_batches || local.mixed != NULL)
        remote_flush(heap);
    if (may_park(heap)) {
        park(heap);
    } else {
        if (heap->quarantine != NULL)
            quarantine_flush(heap);
        remote_return_lists(heap, &local);
        remote_flush(heap);
        if (is_first)
            clean_up(heap, SIZE_MAX);
        else
            supply_schedule_purge(heap); /* a look does it, not each call */
    }
    heap->is_falling = false;
    heap->shed_next = heap->fall_next = NULL;
    local.heap = NULL;
    local.number = local.own_number = OWNER_NOBODY;
    local.mixed = NULL;
    local.left = heap;
    heap_set_occupied(heap, false);
    heap_leave(heap);
    registry_end(heap);
    if (is_first && !heap->is_parked)
        merge(heap);
    registry_leave(heap);
}

void thread_end_again(void) {
    if (local.left != NULL && local.heap != NULL)
        detach(local.heap);
}

/* --- heaps without a thread --- */

enum {
    N_SENT = 1024 /* blocks sent to an orphan that one call frees: no malloc is to take long */
};

bool thread_adopt(struct heap *heap) {
    if (!THREADS || options.adopt != ADOPT_ANY || !registry_has_orphans())
        return false;
    struct heap *orphan = registry_take_orphan();
    if (orphan == NULL)
        return false;
    clean_up(orphan, N_SENT);
    struct superblock *sb = orphan->superblocks;
    if (sb != NULL)
        move(sb, orphan, heap);
    registry_leave(orphan);
    return sb != NULL;
}

static bool collect(struct heap *heap, uint64_t now_ms, size_t n_sent) {
    clean_up(heap, n_sent);
    if (now_ms == UINT64_MAX)
        supply_purge_all(heap);
    else if (heap->superblocks != NULL && heap->purge_ms != 0 && now_ms >= heap->purge_ms)
        purge_whole(heap, now_ms);
    return inbox_has_any(heap);
}

static bool collect_some(struct heap *heap, uint64_t now_ms) {
    return collect(heap, now_ms, N_SENT);
}

static bool collect_all(struct heap *heap, uint64_t now_ms) {
    return collect(heap, now_ms, SIZE_MAX);
}

bool thread_collect(uint64_t now_ms, size_t n) {
    return THREADS && registry_visit(n == SIZE_MAX ? collect_all : collect_some, now_ms, n);
}

static bool return_if_parked(struct heap *heap, uint64_t now_ms) {
    (void)now_ms;
    if (heap->is_parked)
        return_parked_lists(heap);
    return false;
}

void thread_return_parked(void) {
    if (thread_has_parked())
        registry_visit(return_if_parked, 0, SIZE_MAX);
}

bool thread_look_at_all(void) {
    bool has_threads = registry_has_threads();
    uint64_t now_ms = has_threads ? os_clock_ms() : UINT64_MAX;
    if (has_threads)
        idle_give_back_every(now_ms);
    else
        large_purge_all(); /* there may be no later look */
    thread_collect(now_ms, SIZE_MAX);
    pool_purge(now_ms);
    if (has_threads)
        large_purge(now_ms);
    return has_threads || registry_has_threads();
}
