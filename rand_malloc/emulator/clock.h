/* clock.h - the time and the machine that the allocator sees.
 *
 * The executable defines clock_gettime, gettimeofday, time and clock, so a preloaded
 * allocator reads the trace's time instead of the wall's: decay and purge settings act
 * as in the recorded program and a replay is repeatable.  It also defines the
 * questions for the number of processors (pinning the replay to one must not change
 * how many arenas an allocator makes) and getrandom (keys and address hints of an
 * allocator must not differ from run to run).
 *
 * A thread of the allocator that sleeps follows the clock too, see guests.h.
 * Limits: calls inside libc.so itself cannot be interposed (glibc's malloc reads no clock).
 */
#ifndef RAND_MALLOC_CLOCK_H
#define RAND_MALLOC_CLOCK_H

#include <stdint.h>

/* Uptime at the start of a trace: any fixed time long after 0, which some allocators
 * take for "never". */
#define CLOCK_START_NS UINT64_C(1000000000000)

/* The virtual time in ns; written by clock_set and clock_advance only. */
extern uint64_t clock_now_ns;

/* Sets the virtual time: ns since the start of the trace. */
static inline void clock_set(uint64_t trace_ns) {
    __atomic_store_n(&clock_now_ns, CLOCK_START_NS + trace_ns, __ATOMIC_RELAXED);
}

/* As clock_set for concurrent threads: never goes back, rarely writes. */
void clock_advance(uint64_t trace_ns);

/* The number of processors the allocator is shown, at least 1. */
void clock_set_cpus(uint32_t cpus);

/* The real clock, from the emulator's own text; id as for clock_gettime(2). */
uint64_t real_clock_ns(int id);

#endif
