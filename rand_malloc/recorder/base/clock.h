/* clock.h - the processor's own clock: no call, no lock, no shared line.
 *
 * The stamps of one thread never go back; those of two threads may disagree by
 * the reordering window of the processor, well below a microsecond.  build_trace
 * repairs what that can invert.
 */
#ifndef MALLOC_TUNER_RECORDER_CLOCK_H
#define MALLOC_TUNER_RECORDER_CLOCK_H

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
static inline uint64_t clock_stamp(void) {
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
static inline uint64_t clock_stamp(void) {
    uint64_t stamp;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(stamp));
    return stamp;
}
#else
#error "clock_stamp() is not written for this processor"
#endif

static inline uint64_t clock_read_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CLOCK_MONOTONIC, to learn how fast stamps run. */
static inline uint64_t clock_monotonic_ns(void) {
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* Time of the calling thread on a processor; a system call. */
static inline uint64_t clock_thread_ns(void) {
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
