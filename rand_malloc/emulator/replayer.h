/* replayer.h - the child process that calls the allocator, as its supervisor knows it.
 *
 * Its parts, from top to bottom; each knows only what is below:
 *
 * replayer.c        sets up, marks the region, reports
 * lanes.c           one lane per recorded thread: baton, start, exit
 * replay.c          performs operations: call, touch, verify
 * guests.c          threads of the allocator, on the virtual clock
 * meter.c, perf.c   read the heap, faults, time and instructions
 * filter.c          makes the memory system calls stop for the tracer
 * wait.c            waiting for other threads
 * harness.c         the state all share, its memory, how it fails
 */
#ifndef RAND_MALLOC_REPLAYER_H
#define RAND_MALLOC_REPLAYER_H

#include "own_text.h"

#include <stdbool.h>

/* The argument that makes rand_malloc a replayer: alone, of the plan its supervisor handed
 * over as PLAN_FD; with a file, of a saved plan. */
#define REPLAYER_ARGUMENT "--replay-plan"

int replayer_main(void);

/* Replays a saved plan in this very process and prints what was verified, for simulated
 * machines: no child, no tracer, no instrument, no system call that a simulator lacks.
 * is_empty: replays nothing; the difference is the replay's.  Returns an exit code; a failed
 * replay ends the process with status 1. */
int replayer_inside(const char *path, bool is_empty);

#endif
