/* A hardware (or software) event counted over a program, all its threads and children.
 *
 * The counter is attached before the program's exec and begins to count at
 * it, in user mode only.  Most virtual machines have no hardware counters:
 * then there is no counter, which is not an error.
 */
#ifndef SUPERVISE_COUNTER_H
#define SUPERVISE_COUNTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* type and config as in perf_event_open(2).  Returns a descriptor, -1 when there is no such counter
 * here. */
int counter_open(pid_t pid, uint32_t type, uint64_t config);

/* User instructions by the hardware's counter; -1 when there is none. */
int counter_open_instructions(pid_t pid);

/* Read it.  False when nothing was counted, or when the counter had to share the hardware, so that
 * its value would be an estimate. */
bool counter_read(int fd, uint64_t *count);

/* Read and close, after the program has ended. */
bool counter_take(int fd, uint64_t *count);

#endif
