/* lock.h - a small mutex for the slow paths: a futex word with three states.
 *
 * Free while the process has one thread: the C library says so in
 * __libc_single_threaded, and then lock and unlock are plain stores.  The word
 * has the same meaning in both ways, so a lock taken before the first thread
 * is created may be released after it.
 * Source of the three-state protocol: Drepper, "Futexes Are Tricky" (2011),
 * section 6, mutex3.
 */
#ifndef EXGEN_LOCK_H
#define EXGEN_LOCK_H

#include "base/platform.h"

struct lock {
    uint32_t word; /* 0 free, 1 held, 2 held, and threads may wait */
};

/* Locks that the calling thread holds or is taking or releasing; read by its signal handlers. */
extern _Thread_local volatile unsigned n_locks_here
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

ALWAYS_INLINE void lock_begin(void) {
    n_locks_here++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

ALWAYS_INLINE void lock_end(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    n_locks_here--;
}

/* Different in each thread that runs. */
ALWAYS_INLINE const void *lock_thread(void) {
    return (const void *)&n_locks_here;
}

void lock_take(struct lock *l);
void lock_release(struct lock *l);

/* lock_take without waiting; false if it is held. */
bool lock_try(struct lock *l);

/* The first with `waits`, else the second. */
bool lock_take_or_try(struct lock *l, bool waits);

/* Whether the process has one thread, as far as the C library says so. */
bool lock_is_needless(void);

/* Whether the calling thread holds a lock or is about to: true in a signal handler that
 * came between lock_take and lock_release, whose locks would never be released. */
bool lock_is_interrupted(void);

#endif
