/* A service: started, sampled with all its descendants, signalled on demand, ended with its user.
 *
 * The report is a stream of JSON objects, one a line.  "event" is "start" (with the service's pid),
 * "sample" of the whole tree, "exit" of the first process (with exit_status and signal), or "end":
 * no process is left.  "time_ns" is CLOCK_MONOTONIC; tree.h has the other fields.
 * Standard input is the other direction: each line is the number of a signal for the service, 0 for
 * a sample now.  Its end means that whoever asked for the service is gone, by kill -9 too: all
 * processes are ended.
 */
#ifndef SUPERVISE_TEND_H
#define SUPERVISE_TEND_H

#include "launch.h"
#include "plan.h"

/* After watch_prepare.  Returns when no process of the service is left: 0, or the signal that this
 * process got. */
int tend(const struct plan *plan, const struct launched *launched);

#endif
