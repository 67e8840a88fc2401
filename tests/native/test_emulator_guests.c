/* Threads of an allocator sleep on the virtual clock: who runs when, with the clock at what. */
#include "check.h"
#include "guests.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

struct turn_of_guest {
    char name;
    uint64_t clock_ms;
};

static struct {
    struct turn_of_guest turns[64];
    uint32_t n_turns;
    pthread_mutex_t mutex;
    int condition; /* only its address matters */
} seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note(const char *name) {
    seen.turns[seen.n_turns++] =
        (struct turn_of_guest){*name, (clock_now_ns - CLOCK_START_NS) / MS};
}

static bool was_turn(uint32_t index, char name, uint64_t clock_ms) {
    return index < seen.n_turns && seen.turns[index].name == name &&
           seen.turns[index].clock_ms == clock_ms;
}

/* Works every 10 ms, three times, and ends. */
static void *regular(void *name) {
    for (int i = 0; i < 3; i++) {
        note(name);
        guests_sleep(NULL, NULL, clock_now_ns + 10 * MS);
    }
    return NULL;
}

/* Waits for a signal, for 100 ms at most, a few times. */
static void *signalled(void *name) {
    for (int i = 0; i < 4; i++) {
        pthread_mutex_lock(&seen.mutex);
        bool is_signal = guests_sleep(&seen.condition, &seen.mutex, clock_now_ns + 100 * MS);
        pthread_mutex_unlock(&seen.mutex);
        note(is_signal ? (const char *)name : "-");
    }
    return NULL;
}

static void start(void *(*work)(void *), const char *name) {
    pthread_t handle;
    require(guests_create(pthread_create, &handle, NULL, work, (void *)(uintptr_t)name) == 0,
            "a guest can be started");
    pthread_detach(handle);
}

static void check_pauses(void) {
    clock_set(0);
    start(regular, "a");
    start(regular, "b");
    require(seen.n_turns == 0, "nothing runs before time passes");
    guests_let_pass(5 * MS);
    require(was_turn(0, 'a', 0) && was_turn(1, 'b', 0) && seen.n_turns == 2, "both have begun");
    guests_let_pass(15 * MS);
    require(was_turn(2, 'a', 10) && was_turn(3, 'b', 10) && seen.n_turns == 4, "at their time");
    guests_let_pass(100 * MS);
    require(was_turn(4, 'a', 20) && was_turn(5, 'b', 20) && seen.n_turns == 6, "a pause is whole");
    require(clock_now_ns == CLOCK_START_NS + 100 * MS, "the clock goes on");
    require(guests_due_ns == NEVER_NS, "both have ended");
}

static void check_signals(void) {
    seen.n_turns = 0;
    clock_set(0);
    start(signalled, "s");
    guests_let_pass(MS);
    require(seen.n_turns == 0 && guests_due_ns == CLOCK_START_NS + 100 * MS, "it sleeps");
    require(!guests_signal(&seen, true), "nobody waits for another condition");
    clock_set(30 * MS);
    require(guests_signal(&seen.condition, false), "one waits for this one");
    require(seen.n_turns == 0, "it does not run beside the one that signals");
    guests_let_pass(31 * MS);
    require(was_turn(0, 's', 30) && seen.n_turns == 1, "but before the next operation");
    guests_let_pass(150 * MS);
    require(was_turn(1, '-', 130) && seen.n_turns == 2, "and then sleeps anew");
}

/* A thread that the kernel lets run late. */
static struct {
    void *(*work)(void *);
    void *argument;
    _Atomic bool has_begun;
} late;

static void *begin_late(void *nothing) {
    (void)nothing;
    usleep(50000);
    late.has_begun = true;
    return late.work(late.argument);
}

static int create_late(pthread_t *handle, const pthread_attr_t *attributes, void *(*work)(void *),
                       void *argument) {
    late.work = work;
    late.argument = argument;
    return pthread_create(handle, attributes, begin_late, NULL);
}

static void check_late_start(void) {
    pthread_t handle;
    clock_set(0);
    require(guests_create(create_late, &handle, NULL, regular, (void *)(uintptr_t) "l") == 0,
            "a guest starts late");
    require(late.has_begun, "and is waited for, so that its start is always counted alike");
    pthread_detach(handle);
    guests_let_pass(100 * MS);
}

int main(void) {
    check_pauses();
    check_signals();
    check_late_start();
    return verdict();
}
