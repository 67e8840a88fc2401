/* What supervise was asked to do: the command line after parsing, never changed later. */
#ifndef SUPERVISE_PLAN_H
#define SUPERVISE_PLAN_H

#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SUPERVISE_OK = 0,     /* a report was written, whatever the program did */
    SUPERVISE_FAILED = 1, /* measuring or reporting failed */
    SUPERVISE_USAGE = 2,
    SUPERVISE_NO_PROGRAM = 3, /* the command cannot be executed */
};

struct plan {
    int cpu;                   /* core the program is pinned to; -1: not pinned */
    bool aslr;                 /* false: the program runs without address randomisation */
    bool keep_thp;             /* false: transparent huge pages are off for the program */
    uint64_t warm_bytes;       /* of free memory that is touched before the start; see touch.h */
    uint64_t timeout_ns;       /* elapsed time allowed; 0: no limit */
    bool counts_syscalls;      /* stop the program at every system call and count it */
    uint64_t sample_ns;        /* time between two samples, > 0 */
    const char *preload;       /* library for the program's LD_PRELOAD; NULL: none */
    char **environment;        /* the program's whole environment, NULL-terminated, owned */
    char **command;            /* argv of the program, NULL-terminated */
    int report_fd;             /* where the report goes, close-on-exec */
    bool is_service;           /* the program and all its descendants are followed, see tend.h */
    const struct passwd *user; /* whom the program runs as; NULL: as this process does */
};

#endif
