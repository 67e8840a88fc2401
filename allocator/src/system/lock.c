/* lock.c - a futex mutex that costs nothing in a one-thread process; see lock.h. */
#include "system/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* musl has no such variable; there every lock is a real one. */
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
bool lock_is_needless(void) {
    return !THREADS || __libc_single_threaded;
}
#else
bool lock_is_needless(void) {
    return !THREADS;
}
#endif

_Thread_local volatile unsigned n_locks_here;

bool lock_is_interrupted(void) {
    return n_locks_here > 0;
}

static void futex(uint32_t *word, int operation, uint32_t value) {
    int saved = errno;
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
    errno = saved;
}

COLD static void lock_wait(struct lock *l) {
    while (__atomic_exchange_n(&l->word, 2, __ATOMIC_ACQUIRE) != 0)
        futex(&l->word, FUTEX_WAIT, 2);
}

static void take(struct lock *l) {
    if (lock_is_needless()) {
        ASSERT(l->word == 0);
        __atomic_store_n(&l->word, 1, __ATOMIC_RELAXED);
        return;
    }
    uint32_t expected = 0;
    if (!__atomic_compare_exchange_n(&l->word, &expected, 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        lock_wait(l);
}

static bool try(struct lock *l) {
    uint32_t expected = 0;
    if (lock_is_needless()) {
        ASSERT(l->word == 0);
        __atomic_store_n(&l->word, 1, __ATOMIC_RELAXED);
        return true;
    }
    return __atomic_load_n(&l->word, __ATOMIC_RELAXED) == 0 &&
           __atomic_compare_exchange_n(&l->word, &expected, 1, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static void release(struct lock *l) {
    if (lock_is_needless())
        __atomic_store_n(&l->word, 0, __ATOMIC_RELAXED);
    else if (__atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE) == 2)
        futex(&l->word, FUTEX_WAKE, 1);
}

void lock_take(struct lock *l) {
    lock_begin();
    take(l);
}

bool lock_try(struct lock *l) {
    lock_begin();
    bool taken = try(l);
    if (!taken)
        lock_end();
    return taken;
}

void lock_release(struct lock *l) {
    release(l);
    lock_end();
}

bool lock_take_or_try(struct lock *l, bool waits) {
    if (!waits)
        return lock_try(l);
    lock_take(l);
    return true;
}
