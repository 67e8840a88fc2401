/* Starting the program: its own process group, its environment, its core, its
 * address layout, its huge pages; held until the tracer has taken hold of it. */
#ifndef SUPERVISE_LAUNCH_H
#define SUPERVISE_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "plan.h"

struct launched {
    pid_t pid;      /* also the id of its process group */
    bool is_traced; /* false: a service, or this machine forbids tracing; no reading at the exit */
    bool has_fixed_addresses; /* false: not wanted, or forbidden, as in many containers */
    int counter_fd;           /* counts its instructions from the exec on; -1: not countable here */
    int error_fd;             /* closed by a successful exec; else carries a struct launch_error */
};

struct launch_error {
    int step;  /* index into the names of the steps, see launch_step_name */
    int error; /* errno */
};

/* Fork and release the program.  Returns false with errno when fork or pipe fails. */
bool launch(const struct plan *plan, struct launched *launched);

/* Take hold of a process or thread; false where that is forbidden or there is a tracer already. */
bool launch_trace(const struct plan *plan, pid_t pid);

/* Call after the program has ended: true when it never got as far as exec. */
bool launch_failed(const struct launched *launched, struct launch_error *error);

const char *launch_step_name(int step);
bool launch_step_is_exec(int step);

#endif
