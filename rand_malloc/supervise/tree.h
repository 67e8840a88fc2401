/* All processes below this one, from /proc.
 *
 * A service is the process that was started and all its descendants: this process is their
 * subreaper (prctl(2)), so whoever loses its parent, a daemon too, becomes a child of ours.
 * Needs /proc/PID/task/TID/children, as every distribution's kernel has.
 */
#ifndef SUPERVISE_TREE_H
#define SUPERVISE_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    TREE_PROCESSES = 4096 /* more are not seen in one walk */
};

struct tree {
    size_t n;
    size_t n_own;               /* of them are children of this process: the first */
    pid_t pids[TREE_PROCESSES]; /* parents before their children */
    size_t n_threads;           /* of the process that has most */
};

/* What all of them use together, in bytes, each shared page counted once: the sum of proportional
 * shares. */
struct tree_use {
    uint64_t anon;       /* Pss_Anon less what was lazily freed */
    uint64_t lazy;       /* freed with MADV_FREE and not yet taken by the kernel */
    uint64_t shared;     /* Pss_Shmem */
    uint64_t file;       /* Pss_File */
    uint64_t n_unshared; /* processes of which only RssAnon is readable, which counts pages shared
                            between processes once for each */
};

/* Processes that come and go meanwhile may be missing. */
void tree_walk(struct tree *tree);

/* Walks the page tables: takes some 8 ms for 200 MB in pages of 4 KiB. */
void tree_measure(const struct tree *tree, struct tree_use *use);

/* End all descendants, those that they start meanwhile too; returns when none is left. */
void tree_end(void);

#endif
