/* options.h - the command line of rand_malloc and its exit codes. */
#ifndef RAND_MALLOC_OPTIONS_H
#define RAND_MALLOC_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define RAND_MALLOC_VERSION   MALLOC_TUNER_VERSION
#define OPTIONS_MAX_VARIABLES 40

enum exit_code {
    EXIT_OK = 0,
    EXIT_REPLAY = 1, /* the allocator crashed, returned NULL or damaged contents */
    EXIT_USAGE = 2,
    EXIT_TRACE = 3, /* the trace cannot be read */
    EXIT_TIMEOUT = 4,
    EXIT_INSTRUMENT = 5, /* the instrument is not available */
    EXIT_PRELOAD = 6,    /* the library cannot be preloaded */
};

enum action {
    ACTION_REPLAY,
    ACTION_INSTRUMENTS,
    ACTION_BEST_INSTRUMENT,
    ACTION_CALIBRATE,
    ACTION_WARM,
    ACTION_VERSION,
    ACTION_HELP
};

enum instrument_choice {
    INSTRUMENT_AUTO,
    INSTRUMENT_QEMU,
    INSTRUMENT_CACHEGRIND,
    INSTRUMENT_PERF,
    INSTRUMENT_NONE
};

/* Elapsed time allowed to a child, in limits of CPU time. */
#define HANG_FACTOR 10

struct options {
    enum action action;
    const char *trace;
    const char *preload;                          /* NULL: libc's allocator */
    const char *variables[OPTIONS_MAX_VARIABLES]; /* "NAME=VALUE" for the replayer */
    int n_variables;
    bool is_free_running;
    bool wants_memory;
    bool wants_count;
    bool counts_process; /* not only what the allocator executes */
    enum instrument_choice instrument;
    int cpu;        /* pin to this one; -1: the first allowed */
    uint32_t cpus;  /* number of processors shown to the allocator; 0: as many as online */
    bool keeps_thp; /* leave transparent huge pages as the machine has them */
    uint32_t touch; /* enum touch */
    uint64_t seed;
    uint32_t curve_points;
    double timeout_s;      /* CPU time of one child; 0: no limit */
    uint64_t most_events;  /* of the trace that are taken */
    uint64_t warm_bytes;   /* ACTION_WARM: how much memory */
    const char *plan_file; /* write the plan there and replay nothing; NULL: replay */
    const char *kept_file; /* of the decoded workload, see kept.h; NULL: none */
};

/* Reads the command line; EXIT_OK or EXIT_USAGE with a message on stderr. */
int options_parse(int argc, char **argv, struct options *options);

/* The names used on the command line and in the result. */
const char *options_touch_name(uint32_t touch);

void options_print_help(void);

#endif
