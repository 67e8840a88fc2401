/* From the start of the program to its end: stops, samples, the time limit. */
#ifndef SUPERVISE_WATCH_H
#define SUPERVISE_WATCH_H

#include <signal.h>
#include <stdbool.h>

#include "cpu.h"
#include "launch.h"
#include "meter.h"
#include "plan.h"

struct outcome {
    int wait_status; /* as from waitpid */
    bool timed_out;  /* it was killed at the time limit */
    bool has_fixed_addresses;
    struct proc_environment environment; /* at the last exec; text NULL: not read */
    char program[PATH_MAX];              /* file of the last exec; empty: not read */
    bool leaves_others; /* processes that it started went on when it ended, and were killed */
    int interrupted;    /* signal that asked supervise itself to stop; 0: none */
    struct cpu_use reaped_before; /* the last exec, by this process */
    struct cpu_use used;   /* by the program and the children it waited for, before an exec too, and
                              since then by its orphans that ended by themselves */
    uint64_t orphans_ns;   /* by these, in `used` */
    uint64_t wall_ns;      /* from the last exec to the end, without held_ns */
    uint64_t held_ns;      /* the first thread was held at its exit to be read */
    uint64_t first_end_ns; /* monotonic time when that thread ended, 0: it goes on; another one may
                              become another program unseen */
    bool is_counted;       /* instructions is known */
    uint64_t instructions; /* of user mode, of the program and its children */
    uint64_t instructions_before; /* the last exec; not in `instructions` */
    uint64_t n_syscalls;          /* of all threads of the program; 0 unless the plan counts them */
};

/* The signals that watch and tend wait for. */
void watched_signals(sigset_t *signals);

/* Block them, and adopt the program's orphans, so that they can be ended with it; call before
 * launch. */
void watch_prepare(void);

/* Returns when the program has ended and nothing of its process group is left.
 * preload: the library to look for at the exit, NULL when there is none. */
void watch(const struct plan *plan, const struct launched *launched,
           const struct proc_file *preload, struct meter *meter, struct outcome *outcome);

#endif
