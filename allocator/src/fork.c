/* fork.c - keep the allocator whole in the child of a fork.
 *
 * All locks are held across the fork, so the child finds every shared structure
 * consistent.  Our handlers are registered before any the program can
 * register, hence run last before the fork and first after it, and other
 * handlers may allocate.  In the child, heaps of threads that no longer exist
 * are left as they are: blocks freed into them are collected in their inbox.
 */
#include <pthread.h>

#include "platform.h"
#include "thread.h"

__attribute__((constructor(101))) static void register_fork_handlers(void)
{
    if (THREADS)
        pthread_atfork(thread_lock_all, thread_unlock_all, thread_unlock_all);
}
