/* emulator_threaded_allocator.c - libc's allocator with a thread of its own that maps and touches a
 * MiB a second, for the tests of threads on the virtual clock.
 *
 * ALLOCATOR_SLEEPS says how it lets a second pass: nanosleep, clock_nanosleep, usleep,
 * cond_timedwait, or syscall for the first two without libc.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum {
    MIB = 1 << 20
};

void *__libc_malloc(size_t bytes);

static bool has_thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static bool is_way(const char *name) {
    const char *wanted = getenv("ALLOCATOR_SLEEPS");
    return wanted != NULL && strcmp(wanted, name) == 0;
}

/* Half of a second each, and errno as it was. */
static void sleep_by_syscall(void) {
    struct timespec half = {0, 500000000};
    errno = ENOTTY;
    if (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &half, &half) != 0 ||
        syscall(SYS_nanosleep, &half, NULL) != 0 || errno != ENOTTY)
        abort();
}

static void let_second_pass(void) {
    struct timespec second = {1, 0}, next;
    clock_gettime(CLOCK_REALTIME, &next);
    next.tv_sec++;
    if (is_way("nanosleep"))
        nanosleep(&second, NULL);
    else if (is_way("clock_nanosleep"))
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &next, NULL);
    else if (is_way("usleep"))
        usleep(1000000);
    else if (is_way("cond_timedwait"))
        while (pthread_cond_timedwait(&condition, &mutex, &next) == 0)
            continue;
    else if (is_way("syscall"))
        sleep_by_syscall();
    else
        abort();
}

static void *grow(void *unused) {
    pthread_mutex_lock(&mutex);
    for (;;) {
        let_second_pass();
        void *more = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            return unused;
        memset(more, 1, MIB);
    }
}

EXPORTED void *malloc(size_t bytes) {
    pthread_t thread;
    if (!has_thread) {
        has_thread = true; /* first: the thread needs memory too */
        pthread_create(&thread, NULL, grow, NULL);
    }
    return __libc_malloc(bytes);
}
