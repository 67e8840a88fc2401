/* fork.c - keep the allocator whole in the child of a fork.
 *
 * All locks are held across the fork, so the child finds every shared structure
 * consistent.  Our handlers are registered with the first allocation, so before
 * the program's; hence they run last before the fork and first after it, and
 * others may allocate.  In the child, heaps of threads that no longer exist
 * are left as they are: blocks freed into them are collected in their inbox.
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

#include "memory/large.h"
#include "memory/layout.h"
#include "memory/pool.h"
#include "system/lock.h"
#include "thread/exchange.h"
#include "thread/registry.h"

/* Forks of this thread, one inside the other, that did not take the locks. */
static _Thread_local volatile unsigned n_without_locks;

static void lock_all(void) {
    registry_lock();
    exchange_lock();
    pool_lock();
    large_lock();
    owner_map_lock();
}

static void unlock_all(void) {
    owner_map_unlock();
    large_unlock();
    pool_unlock();
    exchange_unlock();
    registry_unlock();
}

static void before(void) {
    if (lock_is_interrupted())
        n_without_locks++;
    else
        lock_all();
}

static void after(void) {
    if (n_without_locks > 0)
        n_without_locks--;
    else
        unlock_all();
}

void fork_watch(void) {
    if (THREADS)
        pthread_atfork(before, after, after);
}
