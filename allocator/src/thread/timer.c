/* timer.c - the thread of the library; see timer.h.
 *
 * It has no heap and allocates nothing.  It takes no signal.  A process ends without waiting for
 * it; but one whose threads end one by one does so with its last, so where no thread has a heap it
 * ends, too, until one starts it again.  Being the last it runs the program's exit handlers.
 */
#include "thread/timer.h"

#include <pthread.h>
#include <signal.h>

#include "base/options.h"
#include "system/os.h"

/* All state of this module. */
static struct {
    bool (*look)(void);
    sigset_t signals; /* that the thread which starts it blocks */
    bool runs;        /* atomic */
} timer;

bool timer_wanted;

static void *run(void *argument) {
    const sigset_t signals = timer.signals;
    do
        os_sleep_ms(options.timer);
    while (timer.look());
    timer_forget();
    pthread_sigmask(SIG_SETMASK, &signals, NULL); /* exit handlers may wait for some */
    return argument;
}

static bool start_thread(void) {
    enum {
        STACK_BYTES = 1 << 20 /* no room for a huge page; or the usual, if the system wants more */
    };
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    timer.signals = before;
    bool started = pthread_create(&thread, &attributes, run, NULL) == 0;
    /* Much thread-local storage, which glibc takes out of the stack, leaves none. */
    if (!started && pthread_create(&thread, NULL, run, NULL) == 0)
        started = pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

bool timer_is_missing(void) {
    return options.timer != 0 && !__atomic_load_n(&timer.runs, __ATOMIC_RELAXED);
}

void timer_start(bool (*look)(void)) {
    if (!timer_is_missing() || __atomic_exchange_n(&timer.runs, true, __ATOMIC_ACQUIRE))
        return;
    timer.look = look;
    if (!start_thread())
        __atomic_store_n(&timer.runs, false, __ATOMIC_RELAXED);
}

void timer_forget(void) {
    __atomic_store_n(&timer.runs, false, __ATOMIC_RELEASE);
}
