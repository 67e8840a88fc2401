/* guests.c - who sleeps, until when, and whose turn it is; see guests.h.
 *
 * A guest sleeps on a futex of its own.  Whoever lets it run in baton mode waits for
 * field.is_running to become 0 again, which the guest sets when it sleeps or has ended.
 */
#include "guests.h"
#include "own_text.h"
#include "rawsys.h"
#include "wait.h"

#include <errno.h>
#include <sys/syscall.h>

#define CACHE_LINE 64

struct guest {
    _Alignas(CACHE_LINE) _Atomic uint32_t may_run; /* 1: it is to wake up */
    _Atomic uint32_t tid;                          /* 0 before it runs */
    bool is_alive;                                 /* the entry is taken */
    bool is_asleep;
    bool is_signalled;
    bool has_ended;        /* its own code; the kernel may still know it */
    uint64_t due_ns;       /* clock time; 0: at once */
    uint64_t fell_asleep;  /* the n-th to do so */
    const void *condition; /* that wakes it too, or NULL */
    void *(*start)(void *);
    void *argument;
};

static struct {
    struct guest guests[MOST_GUESTS];
    uint32_t n_guests; /* entries ever taken */
    uint64_t n_asleep; /* times that a guest fell asleep */
    bool is_free_running;
    _Atomic uint32_t is_running; /* baton mode: a guest is */
    _Atomic uint32_t is_locked;  /* matters among free-running threads only */
} field;

static _Thread_local struct guest *self;

_Atomic uint64_t guests_due_ns = NEVER_NS;
_Thread_local bool starts_lane;

WAITING static void lock(void) {
    while (atomic_exchange_explicit(&field.is_locked, 1, memory_order_acquire) != 0)
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
}

static void unlock(void) {
    atomic_store_explicit(&field.is_locked, 0, memory_order_release);
}

/* The sleeping guest that is due first, not after until_ns; NULL if there is none. */
static struct guest *first_due(uint64_t until_ns) {
    struct guest *first = NULL;
    for (struct guest *guest = field.guests; guest < field.guests + field.n_guests; guest++)
        if (guest->is_alive && guest->is_asleep && guest->due_ns <= until_ns &&
            (first == NULL || guest->due_ns < first->due_ns ||
             (guest->due_ns == first->due_ns && guest->fell_asleep < first->fell_asleep)))
            first = guest;
    return first;
}

static void note_first_due(void) {
    const struct guest *first = first_due(NEVER_NS);
    guests_due_ns = first != NULL ? first->due_ns : NEVER_NS;
}

static void note_sleep(struct guest *guest, const void *condition, uint64_t due_ns) {
    lock();
    guest->condition = condition;
    guest->due_ns = due_ns;
    guest->fell_asleep = field.n_asleep++;
    guest->is_signalled = false;
    guest->is_asleep = true;
    note_first_due();
    unlock();
}

/* ---- the guest's side ---- */

WAITING static void sleep_until_woken(struct guest *guest) {
    wait_while(&guest->may_run, 0);
    atomic_store_explicit(&guest->may_run, 0, memory_order_relaxed);
}

WAITING static void hand_back(void) {
    atomic_store_explicit(&field.is_running, 0, memory_order_release);
    wake_one(&field.is_running);
}

/* One function, as the replay may end before the guest comes to the second step. */
WAITING static void hand_back_and_sleep(struct guest *guest) {
    hand_back();
    sleep_until_woken(guest);
}

bool guests_is_one(void) {
    return self != NULL;
}

bool guests_sleep(const void *condition, pthread_mutex_t *mutex, uint64_t until_ns) {
    note_sleep(self, condition, until_ns);
    if (mutex != NULL)
        pthread_mutex_unlock(mutex);
    hand_back_and_sleep(self);
    if (mutex != NULL)
        pthread_mutex_lock(mutex);
    return self->is_signalled;
}

/* From here on a new guest executes nothing that is counted until it is woken. */
WAITING static void begin_asleep(struct guest *guest) {
    atomic_store_explicit(&guest->tid, (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0),
                          memory_order_release);
    wake_one(&guest->tid);
    sleep_until_woken(guest);
}

static void *guest_main(void *argument) {
    self = argument;
    begin_asleep(self);
    void *result = self->start(self->argument);
    self->has_ended = true;
    if (field.is_free_running)
        self->is_alive = false;
    hand_back();
    return result;
}

static struct guest *take_entry(void) {
    struct guest *guest = field.guests;
    while (guest < field.guests + MOST_GUESTS && guest->is_alive)
        guest++;
    if (guest == field.guests + MOST_GUESTS)
        return NULL;
    if (guest == field.guests + field.n_guests)
        field.n_guests++;
    guest->is_alive = true;
    return guest;
}

int guests_create(guests_create_thread *create, pthread_t *handle, const pthread_attr_t *attributes,
                  void *(*start)(void *), void *argument) {
    lock();
    struct guest *guest = take_entry();
    unlock();
    if (guest == NULL)
        return EAGAIN;
    guest->start = start;
    guest->argument = argument;
    guest->has_ended = false;
    atomic_store_explicit(&guest->tid, 0, memory_order_relaxed);
    note_sleep(guest, NULL, 0);
    int error = create(handle, attributes, guest_main, guest);
    if (error != 0)
        guest->is_alive = false;
    else
        wait_while(&guest->tid, 0);
    return error;
}

/* ---- the side of those who wake it ---- */

WAITING static void wake(struct guest *guest) {
    guest->is_asleep = false;
    atomic_store_explicit(&guest->may_run, 1, memory_order_release);
    wake_one(&guest->may_run);
}

/* Runs one guest until it sleeps or the kernel has forgotten it. */
WAITING static void run_one(struct guest *guest) {
    atomic_store_explicit(&field.is_running, 1, memory_order_relaxed);
    wake(guest);
    wait_while(&field.is_running, 1);
    if (!guest->has_ended)
        return;
    wait_for_exit(&guest->tid);
    guest->is_alive = false;
}

/* Free-running: wakes the threads that are due, and never waits. */
static void wake_due(void) {
    lock();
    for (struct guest *guest; (guest = first_due(clock_now_ns)) != NULL;)
        wake(guest);
    note_first_due();
    unlock();
}

void guests_run(uint64_t trace_ns) {
    if (field.is_free_running) {
        wake_due();
        return;
    }
    for (struct guest *guest; (guest = first_due(CLOCK_START_NS + trace_ns)) != NULL;) {
        if (guest->due_ns > clock_now_ns)
            clock_now_ns = guest->due_ns;
        run_one(guest);
    }
    note_first_due();
}

/* The guest that has slept longest on the condition, or NULL. */
static struct guest *first_on(const void *condition) {
    struct guest *first = NULL;
    for (struct guest *guest = field.guests; guest < field.guests + field.n_guests; guest++)
        if (guest->is_alive && guest->is_asleep && guest->condition == condition &&
            (first == NULL || guest->fell_asleep < first->fell_asleep))
            first = guest;
    return first;
}

bool guests_signal(const void *condition, bool wakes_all) {
    bool has_woken = false;
    lock();
    for (struct guest *guest; (guest = first_on(condition)) != NULL;) {
        has_woken = guest->is_signalled = true;
        guest->condition = NULL;
        guest->due_ns = 0;
        if (field.is_free_running)
            wake(guest);
        if (!wakes_all)
            break;
    }
    note_first_due();
    unlock();
    return has_woken;
}

void guests_run_freely(void) {
    field.is_free_running = true;
}
