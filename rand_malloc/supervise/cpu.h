/* CPU time: of what this process has reaped, and of a service, of its processes and of those that
 * have ended.
 *
 * A process that is waited for leaves its time to its parent, or to us.  Where the parent ignores
 * SIGCHLD or sets SA_NOCLDWAIT the kernel forgets the time of its children (wait(2)): of these the
 * last reading is kept.  They show in that what the parent has from its children does not grow
 * when one is gone.  proc(5) gives it in whole clock ticks, user and system time apart, so that
 * less than two ticks that are missing mean nothing.
 *
 * Guarantee: the total never falls.  Limit: what such children use after their last reading is
 * lost.
 */
#ifndef SUPERVISE_CPU_H
#define SUPERVISE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "tree.h"

struct cpu_use {
    uint64_t user_ns;
    uint64_t system_ns;
};

struct cpu_use cpu_of(const struct rusage *usage);

/* Of all that this process has reaped so far, and of what these had reaped; threads that it only
 * traced are not in it. */
struct cpu_use cpu_reaped(void);

/* A process, as it was last read. */
struct cpu_entry {
    pid_t pid;
    pid_t parent;
    uint64_t started;     /* as in struct proc_counts */
    uint64_t used_ns;     /* by it and the children that it has waited for */
    uint64_t children_ns; /* by these */
    uint64_t missing_ns;  /* by children that are gone, since children_ns grew */
    bool inherits;        /* children_ns has grown since the reading before */
    bool is_there;        /* in the latest walk */
};

struct cpu_account {
    size_t n;
    struct cpu_entry entries[2 * TREE_PROCESSES]; /* of the latest walk, and of the one before */
    uint64_t lost_ns;                             /* last readings that nobody has inherited */
    uint64_t total_ns;                            /* returned last */
};

/* User and system time in ns since the account was made of zeros.  To be called after each walk. */
uint64_t cpu_of_tree(struct cpu_account *account, const struct tree *tree);

#endif
