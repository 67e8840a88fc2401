/* clock.c - interposes time, processor count and randomness; see clock.h. */
#include "clock.h"
#include "plan.h"
#include "rawsys.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define NS_PER_S UINT64_C(1000000000)
/* clock_advance writes the shared time only after this long: threads mostly read it. */
#define ADVANCE_NS UINT64_C(10000)

uint64_t clock_now_ns = CLOCK_START_NS;

static struct { uint32_t cpus; /* shown to the allocator; 0: not yet known */ } virtual_machine;

void clock_advance(uint64_t trace_ns) {
    uint64_t target = CLOCK_START_NS + trace_ns;
    uint64_t seen = __atomic_load_n(&clock_now_ns, __ATOMIC_RELAXED);
    while (target > seen + ADVANCE_NS &&
           !__atomic_compare_exchange_n(&clock_now_ns, &seen, target, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

/* An allocator asks in its constructor, before main has read the orders. */
static uint32_t shown_cpus(void) {
    uint32_t ordered = 0;
    if (virtual_machine.cpus > 0)
        return virtual_machine.cpus;
    raw_syscall(SYS_pread64, OUTCOME_FD, (long)&ordered, sizeof ordered,
                offsetof(struct outcome, orders.cpus), 0, 0);
    clock_set_cpus(ordered);
    return virtual_machine.cpus;
}

void clock_set_cpus(uint32_t cpus) {
    virtual_machine.cpus = cpus > 0 ? cpus : 1;
}

uint64_t real_clock_ns(int id) {
    struct timespec now = {0, 0};
    raw_syscall3(SYS_clock_gettime, id, (long)&now, 0);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t virtual_ns(void) {
    return __atomic_load_n(&clock_now_ns, __ATOMIC_RELAXED);
}

EXPORTED int clock_gettime(clockid_t id, struct timespec *now) {
    (void)id; /* all clocks of the virtual machine run alike */
    uint64_t ns = virtual_ns();
    now->tv_sec = (time_t)(ns / NS_PER_S);
    now->tv_nsec = (long)(ns % NS_PER_S);
    return 0;
}

EXPORTED int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    uint64_t ns = virtual_ns();
    now->tv_sec = (time_t)(ns / NS_PER_S);
    now->tv_usec = (suseconds_t)(ns % NS_PER_S / 1000);
    return 0;
}

EXPORTED time_t time(time_t *now) {
    time_t seconds = (time_t)(virtual_ns() / NS_PER_S);
    if (now != NULL)
        *now = seconds;
    return seconds;
}

EXPORTED clock_t clock(void) {
    return (clock_t)(virtual_ns() / (NS_PER_S / CLOCKS_PER_SEC));
}

EXPORTED int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) {
    (void)pid;
    CPU_ZERO_S(bytes, set);
    for (uint32_t cpu = 0; cpu < shown_cpus() && cpu < 8 * bytes; cpu++)
        CPU_SET_S(cpu, bytes, set);
    return 0;
}

EXPORTED int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *set) {
    (void)thread;
    return sched_getaffinity(0, bytes, set);
}

EXPORTED int get_nprocs(void) {
    return (int)shown_cpus();
}

EXPORTED int get_nprocs_conf(void) {
    return (int)shown_cpus();
}

/* The bytes are always the same; an allocator's secrets protect nothing here. */
EXPORTED ssize_t getrandom(void *buffer, size_t bytes, unsigned flags) {
    (void)flags;
    unsigned char *p = buffer;
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(0x5a + 31 * i);
    return (ssize_t)bytes;
}

static long failed(int error) {
    errno = error;
    return -1;
}

static long sleep_by_clock(const long *a) {
    int error = clock_nanosleep((clockid_t)a[0], (int)a[1], (const struct timespec *)a[2],
                                (struct timespec *)a[3]);
    return error == 0 ? 0 : failed(error);
}

/* Allocators reach some of what is interposed, here or in interpose.c, through syscall(2) too. */
EXPORTED long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_getrandom)
        return getrandom((void *)a[0], (size_t)a[1], (unsigned)a[2]);
    if (number == SYS_sched_getaffinity) { /* returns how much of the set it wrote */
        (void)sched_getaffinity((pid_t)a[0], (size_t)a[1], (cpu_set_t *)a[2]);
        return a[1];
    }
    if (number == SYS_clock_nanosleep)
        return sleep_by_clock(a);
    if (number == SYS_nanosleep)
        return nanosleep((const struct timespec *)a[0], (struct timespec *)a[1]);
    long result = raw_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return result < 0 && result > -4096 ? failed((int)-result) : result;
}
