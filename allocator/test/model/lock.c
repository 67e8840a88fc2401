/* lock.c - model: two threads take the lock, one of them perhaps without waiting, and never
 * hold it both.  The futex only delays, so that lost wake-ups are not looked for. */
#define EXGEN_MODEL_REAL_LOCK
#include "model.h"

#include <errno.h>
#include <unistd.h>

static _Thread_local int errno_of_thread;
#define errno        errno_of_thread
#define syscall(...) 0L
#include "system/lock.c"

char __libc_single_threaded;

static struct lock lock;
static int guarded;

static void *take_and_add(void *waits) {
    if (lock_take_or_try(&lock, waits != NULL)) {
        guarded++;
        lock_release(&lock);
    }
    return NULL;
}

int main(void) {
    run_two(take_and_add, take_and_add);
    lock_take(&lock);
    assert(guarded == 1 || guarded == 2);
    return 0;
}
