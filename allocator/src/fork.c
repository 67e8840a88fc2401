/* fork.c - keep the allocator whole in the child of a fork.
 *
 * All locks are held across the fork, so the child finds every shared structure
 * consistent.  Our handlers are registered with the first allocation, so before
 * the program's; hence they run last before the fork and first after it, and
 * others may allocate.  In the child, heaps of threads that no longer exist
 * are left as they are: blocks freed into them are collected in their inbox.
 */
#include "fork.h"

#include <pthread.h>

#include "thread.h"

void fork_watch(void) {
    if (THREADS)
        pthread_atfork(thread_lock_all, thread_unlock_all, thread_unlock_all);
}
