/* biased_lock.c - model: the thread that has the bias and another one never hold the lock both,
 * whether the other waits for it or not, and gets the bias or not.
 *
 * For what membarrier does to the one that has the bias, a fence stands, as in visit.c. */
#include "model.h"

#undef __atomic_signal_fence
#define __atomic_signal_fence __atomic_thread_fence
static _Thread_local int self;
#define lock_thread() ((const void *)&selves[self])
static const char selves[3];
#include "system/biased_lock.c"

_Thread_local volatile unsigned n_locks_here;

bool lock_is_needless(void) {
    return false;
}

bool os_fence_threads(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return true;
}

void os_sleep_ms(uint64_t ms) {
    (void)ms;
}

static struct biased_lock lock;
static int guarded;

/* As if it had taken the lock often enough. */
static void release_with_bias(void) {
    lock.n_alone = lock.inside == NULL ? ALONE_MOST : 0;
    biased_lock_release(&lock);
}

static void *take_twice(void *argument) {
    self = 1;
    for (int i = 0; i < 2; i++) {
        biased_lock_take(&lock);
        guarded++;
        biased_lock_release(&lock);
    }
    return argument;
}

static void *try_and_take(void *argument) {
    self = 2;
    if (biased_lock_try(&lock)) {
        guarded++;
        release_with_bias();
    }
    biased_lock_take(&lock);
    guarded++;
    biased_lock_release(&lock);
    return argument;
}

int main(void) {
    self = 1; /* the first thread's */
    biased_lock_take(&lock);
    release_with_bias();
    assert(lock.bias == &lock.places[0]);
    run_two(take_twice, try_and_take);
    self = 0;
    biased_lock_take(&lock);
    assert(guarded == 3 || guarded == 4);
    return 0;
}
