/* The account of one program: fed with samples, then with the reading at its end.
 *
 * peak_rss   VmHWM, read while the process is held at its exit.  getrusage's
 *            ru_maxrss is not used: it survives exec, so a big launcher shows
 *            up as the peak of a small program, and it is not summed exactly.
 * peak_anon  max(sampled RssAnon, VmHWM - greatest RssFile + RssShmem seen): samples alone miss
 *            short peaks.  Pages given back by MADV_FREE count until taken.
 * mean_anon  integral of (RssAnon - LazyFree) over time, trapezoids, divided by
 *            the time between the first and the last sample.
 * mean_anon_cpu  the same over the CPU time of the process, all its threads: a machine that
 *            lets the program wait does not move it.  Where VmHWM shows that a peak lies between
 *            two samples, by way of it: on a busy machine a short program may run from its start
 *            to its end without a sample.  File pages that came and went in between count, too.
 *
 * LazyFree costs a walk over the page tables under the program's memory lock,
 * so it is read at most so often that walks take 1/WALK_SHARE of a core, and
 * the last value is used in between.
 *
 * An exec starts the account afresh: wrappers such as `env` or `nice` leave no
 * trace in it.
 */
#ifndef SUPERVISE_METER_H
#define SUPERVISE_METER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "curve.h"
#include "proc.h"
#include "recent.h"

enum {
    WALK_SHARE = 50
};

struct meter {
    pid_t pid;
    bool is_final;         /* the reading at the exit stop was had */
    uint64_t start_ns;     /* monotonic time of the last exec */
    uint64_t first_ns;     /* of the first sample since */
    uint64_t last_ns;      /* of the last sample */
    uint64_t last_kept;    /* RssAnon - LazyFree of the last sample, bytes */
    double area;           /* integral of that, byte nanoseconds */
    uint64_t first_cpu_ns; /* CPU time of the process at the first sample */
    uint64_t last_cpu_ns;  /* at the last sample */
    double cpu_area;       /* integral over CPU time, byte nanoseconds */
    struct recent recent;  /* memory since CPU time became known last */
    uint64_t peak_rss;     /* bytes */
    uint64_t peak_anon;    /* greatest sampled RssAnon, bytes */
    uint64_t peak_file;    /* greatest sampled RssFile + RssShmem, bytes */
    uint64_t lazy;         /* last LazyFree, bytes */
    uint64_t peak_lazy;    /* greatest LazyFree seen, bytes */
    uint64_t next_walk_ns; /* no LazyFree walk before this time */
    uint64_t n_samples;
    uint64_t n_threads;       /* greatest number seen */
    struct proc_counts begin; /* counters at the last exec */
    struct proc_counts end;   /* counters at the last reading */
    bool preload_known;       /* preload_mapped was read */
    bool preload_mapped;
    struct proc_libraries libraries; /* allocators mapped at the exit */
    struct curve curve;              /* RssAnon - LazyFree over time since start_ns */
};

uint64_t monotonic_ns(void);

/* Begin, or begin afresh after an exec. */
void meter_start(struct meter *meter, pid_t pid);

void meter_sample(struct meter *meter);

/* The last reading, while the process is held at its exit.
 * preload: the library that should be mapped, NULL when there is none. */
void meter_exit(struct meter *meter, const struct proc_file *preload);

uint64_t meter_peak_anon(const struct meter *meter);
double meter_mean_anon(const struct meter *meter);

/* As long as no CPU time was seen it is that of the last sample. */
double meter_mean_anon_cpu(const struct meter *meter);

#endif
