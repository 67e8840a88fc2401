/* biased_lock.c - see biased_lock.h. */
#include "system/biased_lock.h"

#include "system/os.h"

enum {
    ALONE_MOST = 256,
    N_LOOKS = 1000, /* before the first sleep: the lock is held for less than a microsecond */
    DRAIN_MS = 20   /* a store is on its way for less than that, too */
};

/* --- the thread that has the bias --- */

ALWAYS_INLINE void leave(struct bias *bias) {
    __atomic_store_n(&bias->is_inside, false, __ATOMIC_RELEASE);
}

/* False if the calling thread has not, or not any more. */
ALWAYS_INLINE bool enter(struct biased_lock *l) {
    struct bias *bias = __atomic_load_n(&l->bias, __ATOMIC_RELAXED);
    if (bias == NULL || __atomic_load_n(&bias->thread, __ATOMIC_RELAXED) != lock_thread())
        return false;
    ASSERT(!bias->is_inside); /* a handler of a signal came between */
    __atomic_store_n(&bias->is_inside, true, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (likely(__atomic_load_n(&l->bias, __ATOMIC_RELAXED) == bias)) {
        l->inside = bias;
        return true;
    }
    leave(bias);
    return false;
}

/* --- the others, which have the real lock --- */

static bool is_inside(const struct bias *bias) {
    return __atomic_load_n(&bias->is_inside, __ATOMIC_ACQUIRE);
}

COLD static void wait_for(const struct bias *bias) {
    for (size_t i = 0; is_inside(bias); i++)
        if (i >= N_LOOKS)
            os_sleep_ms(1);
}

/* Until what any thread has stored so far has reached the others. */
COLD static void outwait_stores(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (uint64_t end_ms = os_clock_ms() + DRAIN_MS; os_clock_ms() < end_ms;)
        os_sleep_ms(1);
}

static bool has_bias(const struct biased_lock *l) {
    return __atomic_load_n(&l->bias, __ATOMIC_RELAXED) != NULL;
}

/* Nobody has the bias from now on; whose it was may still be inside. */
COLD static struct bias *end_bias(struct biased_lock *l) {
    struct bias *bias = __atomic_load_n(&l->bias, __ATOMIC_RELAXED);
    __atomic_store_n(&l->bias, NULL, __ATOMIC_RELAXED);
    if (!os_fence_threads())
        outwait_stores();
    return bias;
}

static void note_taken(struct biased_lock *l) {
    l->inside = NULL;
    l->n_alone = l->last == lock_thread() ? l->n_alone + 1 : 0;
    l->last = lock_thread();
}

/* The place of the calling thread; NULL if all are others'. */
static struct bias *find_place(struct biased_lock *l) {
    for (size_t i = 0; i < N_BIAS_PLACES; i++)
        if (l->places[i].thread == NULL || l->places[i].thread == lock_thread())
            return &l->places[i];
    return NULL;
}

COLD static void give_bias(struct biased_lock *l) {
    struct bias *bias = find_place(l);
    l->n_alone = 0;
    if (bias == NULL || lock_is_needless() || !os_fence_threads())
        return;
    __atomic_store_n(&bias->thread, lock_thread(), __ATOMIC_RELAXED);
    __atomic_store_n(&bias->is_inside, false, __ATOMIC_RELAXED); /* after a fork it may not be */
    __atomic_store_n(&l->bias, bias, __ATOMIC_RELAXED);
}

void biased_lock_take_really(struct biased_lock *l) {
    lock_take(&l->lock);
    if (unlikely(has_bias(l)))
        wait_for(end_bias(l));
    note_taken(l);
}

void biased_lock_take(struct biased_lock *l) {
    lock_begin();
    if (THREADS && enter(l))
        return;
    lock_end();
    biased_lock_take_really(l);
}

bool biased_lock_try(struct biased_lock *l) {
    lock_begin();
    if (THREADS && enter(l))
        return true;
    lock_end();
    if (!lock_try(&l->lock))
        return false;
    struct bias *bias = has_bias(l) ? end_bias(l) : NULL;
    bool is_taken = bias == NULL || !is_inside(bias);
    if (likely(is_taken)) {
        note_taken(l);
    } else {
        __atomic_store_n(&l->bias, bias, __ATOMIC_RELAXED);
        lock_release(&l->lock);
    }
    return is_taken;
}

void biased_lock_release(struct biased_lock *l) {
    struct bias *bias = l->inside;
    if (bias != NULL) {
        leave(bias);
        lock_end();
        return;
    }
    if (THREADS && unlikely(l->n_alone >= ALONE_MOST))
        give_bias(l);
    lock_release(&l->lock);
}
