/* Reading what the kernel knows about a process from /proc.
 *
 * All functions return false when the process, or the asked part of it, is
 * gone; the result is then untouched.
 */
#ifndef SUPERVISE_PROC_H
#define SUPERVISE_PROC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From status.  In bytes. */
struct proc_memory {
    uint64_t high_water; /* VmHWM: greatest rss of this program image */
    uint64_t anon;       /* RssAnon, lazily freed pages included */
    uint64_t file;       /* RssFile + RssShmem */
    uint64_t n_threads;  /* Threads; no bytes */
};

/* From stat, for all threads together. */
struct proc_counts {
    pid_t parent;
    uint64_t started; /* clock ticks since boot: with its number this names a process */
    uint64_t minor_faults;
    uint64_t major_faults;
    uint64_t user_ns; /* of its own; resolution 1 clock tick, as of all below */
    uint64_t system_ns;
    uint64_t children_user_ns; /* of the children waited for */
    uint64_t children_system_ns;
};

/* From smaps_rollup and smaps: shares of what is resident, a page that n processes map counts 1/n
 * in each. */
struct proc_shares {
    uint64_t anon;   /* lazily freed pages included */
    uint64_t lazy;   /* freed with MADV_FREE, not yet taken by the kernel */
    uint64_t shared; /* shared memory */
    uint64_t file;
};

bool proc_memory(pid_t pid, struct proc_memory *memory);
bool proc_counts(pid_t pid, struct proc_counts *counts);

/* CPU time of all its threads so far, in ns; 0 when it cannot be read. */
uint64_t proc_cpu_ns(pid_t pid);

/* Bytes given back by MADV_FREE which the kernel has not taken yet.
 * Walks the page tables: time grows with the resident memory. */
bool proc_lazy_free(pid_t pid, uint64_t *bytes);

/* Walks the page tables too. */
bool proc_shares(pid_t pid, struct proc_shares *shares);

/* What a process was started with, NAME=VALUE and NUL one after the other; of the caller. */
struct proc_environment {
    char *text; /* a NUL more is behind it; NULL: not known */
    size_t n_bytes;
};

bool proc_environment(pid_t pid, struct proc_environment *environment);

/* The file that it runs. */
bool proc_program(pid_t pid, char program[PATH_MAX]);

enum {
    N_LIBRARIES = 4,
    LIBRARY_ROOM = 256
};

/* Mapped files whose name has "malloc" or "libexgen" in it: the allocators a program brings of its
 * own. More than N_LIBRARIES, and longer paths, are left out. */
struct proc_libraries {
    size_t n;
    char paths[N_LIBRARIES][LIBRARY_ROOM];
};

bool proc_malloc_libraries(pid_t pid, struct proc_libraries *libraries);

/* A file, however it is named: btrfs, and overlayfs before Linux 6.8, show another device for a
 * mapping than for the file, so the path that all links lead to counts as much as the numbers. */
struct proc_file {
    dev_t device;
    ino_t inode;
    char path[PATH_MAX];
};

/* False, and errno, if there is none of that name. */
bool proc_find_file(const char *name, struct proc_file *file);

/* Whether it is mapped into the process; false if that cannot be read. */
bool proc_maps_file(pid_t pid, const struct proc_file *file, bool *is_mapped);

#endif
