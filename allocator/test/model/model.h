/* model.h - what the models of the lock-free parts share, for the model checker GenMC. */
#ifndef EXGEN_MODEL_H
#define EXGEN_MODEL_H

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/platform.h"

/* GenMC takes the compiler's barrier for a fence between threads. */
#define __atomic_signal_fence(order) ((void)0)
#include "system/lock.h"

#ifdef EXGEN_MODEL_FAILURES
/* The model checker gives a comparison that fails the order of one that succeeds.  Where this is
 * asked for, a load of the order for failures comes before. */
#define __atomic_compare_exchange_n(word, expected, value, is_weak, order, order_failed)           \
    model_exchange(word, expected, value, order, __atomic_load_n(word, order_failed))
#define model_exchange(word, expected, value, order, seen)                                         \
    __extension__({                                                                                \
        __typeof__(*(expected)) seen_ = (seen);                                                    \
        bool is_same_ = seen_ == *(expected);                                                      \
        if (is_same_)                                                                              \
            is_same_ = __atomic_compare_exchange(word, expected, &(__typeof__(seen_)){value},      \
                                                 false, order, __ATOMIC_RELAXED);                  \
        else                                                                                       \
            *(expected) = seen_;                                                                   \
        is_same_;                                                                                  \
    })
#endif

/* Both at the same time; the first is called with NULL, the second with something else. */
static void run_two(void *(*first)(void *), void *(*second)(void *)) {
    pthread_t threads[2];
    static int other;
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, &other);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

#ifndef EXGEN_MODEL_REAL_LOCK
/* The lock of the slow paths, without its futex; lock.c has a model of its own. */
void lock_take(struct lock *l) {
    while (__atomic_exchange_n(&l->word, 1, __ATOMIC_ACQUIRE) != 0) {
    }
}

void lock_release(struct lock *l) {
    __atomic_store_n(&l->word, 0, __ATOMIC_RELEASE);
}

bool lock_take_or_try(struct lock *l, bool waits) {
    if (waits)
        lock_take(l);
    return waits || __atomic_exchange_n(&l->word, 1, __ATOMIC_ACQUIRE) == 0;
}

bool lock_try(struct lock *l) {
    return lock_take_or_try(l, false);
}
#endif

void fatal(const char *what, const void *address) {
    (void)what;
    (void)address;
    assert(false);
    abort();
}

#endif
