/* fork.c - keep the allocator whole in the child of a fork.
 *
 * On its way into a fork the C library takes, after all handlers, the lock of its list of streams.
 * fflush(NULL) holds that lock while it waits for a stream whose thread may be inside malloc
 * (getline does that).  So the list is locked here first, then our locks: the order in which every
 * other thread takes them, and that of the C library with its own malloc (glibc's bug 19431).
 *
 * All locks are held across the fork, so the child finds every shared structure
 * consistent.  Our handlers are registered before initialisers of the program, and of all libraries
 * if exgen is a shared one, or with the first allocation (thread.c); hence they run last before the
 * fork and first after it, and others registered later may allocate, or wait for a thread that
 * does.  In the child, heaps of threads that no longer exist are left as they are: blocks freed
 * into them are collected in their inbox.
 *
 * A signal handler may fork while its own thread is inside the allocator.  Waiting for
 * the locks would then never end, so they are left alone: the interrupted function
 * releases what it holds, in parent and child alike.  What other threads
 * were doing at that moment stays half-done in the child; POSIX lets such a child
 * call async-signal-safe functions only, and those do not allocate.  A process with one thread
 * has no such moment.
 */
#include "thread/fork.h"

#include <pthread.h>

#include "heap/visit.h"
#include "memory/large.h"
#include "memory/layout.h"
#include "memory/pool.h"
#include "system/lock.h"
#include "thread/exchange.h"
#include "thread/registry.h"
#include "thread/timer.h"

/* Forks of this thread, one inside the other, that did not take the locks. */
static _Thread_local volatile unsigned n_without_locks;

/* Of the C library, recursive; nothing where it has none. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

/* All other state of this module. */
static struct {
    bool is_watched;  /* atomic: the handlers are registered */
    bool has_streams; /* the fork under way has locked the list of streams; under our locks */
} forks;

static bool can_lock_streams(void) {
    return _IO_list_lock != NULL && _IO_list_unlock != NULL && _IO_list_resetlock != NULL;
}

static void lock_all(void) {
    bool locks_streams = !lock_is_needless() && can_lock_streams();
    if (locks_streams)
        _IO_list_lock();
    heap_visits_lock(true);
    registry_lock();
    exchange_lock();
    pool_lock();
    large_lock();
    owner_map_lock(true);
    forks.has_streams = locks_streams;
}

static void unlock_all(void) {
    owner_map_unlock();
    large_unlock();
    pool_unlock();
    exchange_unlock();
    registry_unlock();
    heap_visits_unlock();
}

static void before(void) {
    if (lock_is_interrupted())
        n_without_locks++;
    else
        lock_all();
}

/* Whether this fork has locked the list of streams, too. */
static bool release_all(void) {
    if (n_without_locks > 0) {
        n_without_locks--;
        return false;
    }
    bool has_locked_streams = forks.has_streams;
    unlock_all();
    return has_locked_streams;
}

static void after_in_parent(void) {
    if (release_all())
        _IO_list_unlock();
}

/* The C library has reset its lock in the child, or, if it took the process for one with a single
 * thread, not even taken it. */
static void after_in_child(void) {
    timer_forget();
    heap_visits_forget_owners();
    registry_forget_others(local.heap != NULL);
    if (release_all())
        _IO_list_resetlock();
}

void fork_watch(void) {
    if (THREADS && !__atomic_exchange_n(&forks.is_watched, true, __ATOMIC_RELAXED))
        pthread_atfork(before, after_in_parent, after_in_child);
}
