/* interpose.c - calls by which an allocator starts threads, lets them sleep and wakes them.
 *
 * Part of the program only, not of the tests: a sanitizer has calls of the same names.  Whoever is
 * no guest (see guests.h) gets libc's; of a time a guest waits for, all clocks run alike.
 *
 * jemalloc takes pthread_create by dlsym(RTLD_NEXT), which passes by an executable, so dlsym is
 * interposed too.  It finds out from its return address who calls, so libc's is jumped to.
 */
#include "guests.h"
#include "rawsys.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define NS_PER_S UINT64_C(1000000000)

/* The versions that x86-64 has had since its conditions were new; later glibcs keep them. */
#define OLDEST      "GLIBC_2.2.5"
#define CONDITIONS  "GLIBC_2.3.2"
#define CLOCK_WAITS "GLIBC_2.30"

/* Declares `real`, libc's function of the name. */
#define REAL(name, version)                                                                        \
    static void *found;                                                                            \
    __typeof__(&(name)) real;                                                                      \
    if (found == NULL)                                                                             \
        found = dlvsym(RTLD_NEXT, #name, version);                                                 \
    memcpy(&real, &found, sizeof real)

static uint64_t ns_of(const struct timespec *time) {
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

/* ---- threads ---- */

EXPORTED int pthread_create(pthread_t *handle, const pthread_attr_t *attributes,
                            void *(*start)(void *), void *argument) {
    REAL(pthread_create, OLDEST);
    if (starts_lane)
        return real(handle, attributes, start, argument);
    return guests_create(real, handle, attributes, start, argument);
}

__attribute__((used)) static void *libc_dlsym;

/* What stands in for a name, or NULL. */
__attribute__((used)) static void *stand_in(void *handle, const char *name) {
    void *found = NULL;
    if (libc_dlsym == NULL)
        libc_dlsym = dlvsym(RTLD_NEXT, "dlsym", OLDEST);
    if (handle == RTLD_NEXT && strcmp(name, "pthread_create") == 0) {
        __typeof__(&pthread_create) ours = pthread_create;
        memcpy(&found, &ours, sizeof found);
    }
    return found;
}

__asm__(".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n\t"
        "pushq %rdi\n\t"
        "pushq %rsi\n\t"
        "subq $8, %rsp\n\t" /* aligned to 16 bytes for the call */
        "call stand_in\n\t"
        "addq $8, %rsp\n\t"
        "popq %rsi\n\t"
        "popq %rdi\n\t"
        "testq %rax, %rax\n\t"
        "jz 1f\n\t"
        "ret\n"
        "1:\n\t"
        "jmp *libc_dlsym(%rip)\n"
        ".size dlsym, . - dlsym\n");

/* ---- conditions ---- */

EXPORTED int pthread_cond_wait(pthread_cond_t *restrict condition,
                               pthread_mutex_t *restrict mutex) {
    REAL(pthread_cond_wait, CONDITIONS);
    if (!guests_is_one())
        return real(condition, mutex);
    guests_sleep(condition, mutex, NEVER_NS);
    return 0;
}

EXPORTED int pthread_cond_timedwait(pthread_cond_t *restrict condition,
                                    pthread_mutex_t *restrict mutex,
                                    const struct timespec *restrict until) {
    REAL(pthread_cond_timedwait, CONDITIONS);
    if (!guests_is_one())
        return real(condition, mutex, until);
    return guests_sleep(condition, mutex, ns_of(until)) ? 0 : ETIMEDOUT;
}

EXPORTED int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                    clockid_t clock, const struct timespec *until) {
    REAL(pthread_cond_clockwait, CLOCK_WAITS);
    if (!guests_is_one())
        return real(condition, mutex, clock, until);
    return guests_sleep(condition, mutex, ns_of(until)) ? 0 : ETIMEDOUT;
}

EXPORTED int pthread_cond_signal(pthread_cond_t *condition) {
    REAL(pthread_cond_signal, CONDITIONS);
    return guests_signal(condition, false) ? 0 : real(condition);
}

EXPORTED int pthread_cond_broadcast(pthread_cond_t *condition) {
    REAL(pthread_cond_broadcast, CONDITIONS);
    guests_signal(condition, true);
    return real(condition);
}

/* ---- sleeps ---- */

EXPORTED int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                             struct timespec *left) {
    if (!guests_is_one())
        return (int)-raw_syscall(SYS_clock_nanosleep, clock, flags, (long)time, (long)left, 0, 0);
    guests_sleep(NULL, NULL, ns_of(time) + ((flags & TIMER_ABSTIME) != 0 ? 0 : clock_now_ns));
    return 0;
}

EXPORTED int nanosleep(const struct timespec *time, struct timespec *left) {
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

EXPORTED int usleep(useconds_t microseconds) {
    struct timespec time = {microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
    return nanosleep(&time, NULL);
}
