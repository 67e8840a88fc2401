/* guests.h - threads of the allocator, which sleep on the virtual clock.
 *
 * An allocator may have threads of its own, such as jemalloc's background threads: they work, then
 * sleep until a time or a signal.  Here such a thread is a *guest*.  interpose.c catches the calls
 * that start it, put it to sleep and wake it: pthread_create, pthread_cond_wait, _timedwait,
 * _clockwait, _signal and _broadcast, clock_nanosleep, nanosleep, usleep; and clock.c the first two
 * of the sleeps as syscall(2).  A guest runs when the clock is about to pass the
 * time it waits for, or before the operation that follows a signal, with the clock at that time:
 * an idle phase of the trace gives it the turns that the recorded time would have.
 *
 * Guarantee (baton mode): while a guest runs everybody else waits, and guests run in the order of
 * their times, equal ones in the order in which they fell asleep: a replay repeats to the
 * instruction.  What a guest executes counts as the allocator's.  With free-running threads guests
 * are woken at their time and run beside them.
 *
 * Limits: a guest that waits in another way than interpose.c knows is waited for, so it must end
 * its wait by itself; MOST_GUESTS alive at once.
 */
#ifndef RAND_MALLOC_GUESTS_H
#define RAND_MALLOC_GUESTS_H

#include "clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define MOST_GUESTS 256
#define NEVER_NS    UINT64_MAX

/* Clock time at which the first guest is due: 0 for one that was signalled, or NEVER_NS. */
extern _Atomic uint64_t guests_due_ns;

/* True while this thread starts one of the trace, which is no guest. */
extern _Thread_local bool starts_lane;

typedef int guests_create_thread(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Starts a guest by the given pthread_create, and returns when it sleeps: what a thread executes
 * to start is counted in every replay, or in none.  It wakes when the clock passes. */
int guests_create(guests_create_thread *create, pthread_t *handle, const pthread_attr_t *attributes,
                  void *(*start)(void *), void *argument);

/* Is the calling thread one? */
bool guests_is_one(void);

/* Puts the calling guest to sleep until the clock shows until_ns or the condition is signalled;
 * the mutex, if there is one, is free meanwhile.  Returns whether it was signalled. */
bool guests_sleep(const void *condition, pthread_mutex_t *mutex, uint64_t until_ns);

/* Wakes the guest that has slept longest on the condition, or all; false if there is none. */
bool guests_signal(const void *condition, bool wakes_all);

/* Threads of the trace run freely from now on. */
void guests_run_freely(void);

/* Runs the guests that are due before the clock shows trace_ns. */
void guests_run(uint64_t trace_ns);

/* Sets the clock (baton mode): ns since the start of the trace.  Guests act first. */
static inline void guests_let_pass(uint64_t trace_ns) {
    if (__builtin_expect(CLOCK_START_NS + trace_ns >= guests_due_ns, 0))
        guests_run(trace_ns);
    clock_set(trace_ns);
}

/* The same among free-running threads: the clock never goes back, and wakes guests. */
static inline void guests_advance(uint64_t trace_ns) {
    clock_advance(trace_ns);
    if (__builtin_expect(clock_now_ns >= guests_due_ns, 0))
        guests_run(trace_ns);
}

#endif
