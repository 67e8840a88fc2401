/* tracer.h - waits for the child; counts its memory system calls while it runs.
 *
 * ptrace(2) with PTRACE_SEIZE and the stops of filter.h.  A tracer changes neither page
 * faults nor memory of its tracee, only its time.  Before each call that may give memory
 * back the tracee's resident memory is read: between two such calls it only grows, so the
 * largest of these readings is the exact peak.
 */
#ifndef RAND_MALLOC_TRACER_H
#define RAND_MALLOC_TRACER_H

#include "run.h"

#include <sys/types.h>

/* Attaches to a child that waits before its exec; false if ptrace is not permitted. */
bool tracer_attach(pid_t child);

/* Waits until the child has ended or the time is over, then kills and reaps its whole
 * process group.  Sets run->status, run->timed_out and run->traced. */
void tracer_wait(struct run *run, pid_t child);

#endif
