/* emulator_bad_allocator.c - libraries that misbehave, for the tests of the emulator's checks.
 *
 * EMULATOR_BAD names the fault: damage, dirty_calloc, misaligned, crash, hang, sleep, exit, null,
 * and four that are none: nap, a second without work; nothing, NULL for 0 bytes; clocks and cpus,
 * which are crashes only where the clocks disagree or there are not seven processors.
 * It starts with the 1000th call of malloc or calloc.  Everything else is libc's allocator.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);

static struct {
    unsigned n_calls;
    bool has_slept;
    void *victim; /* the last block of at least 64 bytes */
} state;

static bool is_fault(const char *name) {
    const char *wanted = getenv("EMULATOR_BAD");
    return state.n_calls >= 1000 && wanted != NULL && strcmp(wanted, name) == 0;
}

static bool clocks_agree(void) {
    struct timespec now;
    struct timeval day;
    clock_gettime(CLOCK_MONOTONIC, &now);
    gettimeofday(&day, NULL);
    long microseconds = now.tv_sec * 1000000 + now.tv_nsec / 1000;
    return microseconds > 0 && day.tv_sec * 1000000 + day.tv_usec == microseconds &&
           clock() == microseconds && time(NULL) == now.tv_sec;
}

/* By every way that an allocator may take. */
static bool sees_seven_cpus(void) {
    cpu_set_t by_call, by_thread, by_process;
    memset(&by_call, 0, sizeof by_call);
    return syscall(SYS_sched_getaffinity, 0, sizeof by_call, &by_call) > 0 &&
           pthread_getaffinity_np(pthread_self(), sizeof by_thread, &by_thread) == 0 &&
           sched_getaffinity(0, sizeof by_process, &by_process) == 0 && CPU_COUNT(&by_call) == 7 &&
           CPU_COUNT(&by_thread) == 7 && CPU_COUNT(&by_process) == 7;
}

EXPORTED void *malloc(size_t bytes) {
    state.n_calls++;
    if (is_fault("crash") || (is_fault("clocks") && !clocks_agree()) ||
        (is_fault("cpus") && !sees_seven_cpus()))
        *(volatile int *)8 = 1;
    if (is_fault("exit"))
        _exit(0);
    while (is_fault("hang"))
        continue;
    while (is_fault("sleep"))
        pause();
    if (is_fault("nap") && !state.has_slept) {
        state.has_slept = true;
        usleep(1000000);
    }
    if (is_fault("null") && bytes > 0)
        return NULL;
    if (is_fault("nothing") && bytes == 0)
        return NULL;
    char *block = __libc_malloc(bytes + 16);
    if (is_fault("misaligned"))
        return block + 1;
    if (bytes >= 64 && is_fault("damage") && state.victim != NULL)
        memset(state.victim, 0x55, 64);
    if (bytes >= 64)
        state.victim = block;
    return block;
}

EXPORTED void *calloc(size_t count, size_t bytes) {
    state.n_calls++;
    void *block = __libc_calloc(count, bytes);
    if (is_fault("dirty_calloc") && count * bytes > 0)
        *(char *)block = 1;
    return block;
}
