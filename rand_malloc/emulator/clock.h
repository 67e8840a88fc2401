/* clock.h - the time and the machine that the allocator sees.
 *
 * The executable defines clock_gettime, gettimeofday, time and clock, so a preloaded
 * allocator reads the trace's time instead of the wall's: decay and purge settings act
 * as in the recorded program and a replay is repeatable.  It also defines the
 * questions for the number of processors (pinning the replay to one must not change
 * how many arenas an allocator makes) and getrandom (keys and address hints of an
 * allocator must not differ from run to run).
 *
 * Limits: calls inside libc.so itself cannot be interposed (glibc's malloc reads no
 * clock); a thread of the allocator that sleeps until a wall-clock time does not follow
 * the virtual clock.
 */
#ifndef RAND_MALLOC_CLOCK_H
#define RAND_MALLOC_CLOCK_H

#include <stdint.h>

/* Sets the virtual time: ns since the start of the trace. */
void clock_set(uint64_t trace_ns);

/* As clock_set for concurrent threads: never goes back, rarely writes. */
void clock_advance(uint64_t trace_ns);

/* The number of processors the allocator is shown, at least 1. */
void clock_set_cpus(uint32_t cpus);

/* The real clock, from the emulator's own text; id as for clock_gettime(2). */
uint64_t real_clock_ns(int id);

#endif
