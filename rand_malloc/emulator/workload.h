/* workload.h - a trace or profile, decoded: the plan for the replayer and what the supervisor
 * keeps. */
#ifndef RAND_MALLOC_WORKLOAD_H
#define RAND_MALLOC_WORKLOAD_H

#include "plan.h"
#include "trace.h"

#include <stdbool.h>

/* Heap readings per run: about this many, more where the clock jumps. */
#define WORKLOAD_SAMPLES UINT64_C(10000)

/* What the events are; see source.h. */
struct workload_model {
    char level[32];
    bool is_low_fidelity;
};

struct workload {
    struct trace_info info;
    struct workload_model model;
    int plan_fd;             /* sealed memfd */
    const struct plan *plan; /* the same, mapped */
    uint32_t *event_of_op;   /* [n_ops] index in the trace, for messages; NULL: all are the same */
    uint64_t *sample_live;   /* [n_samples] live bytes at each sample point */
    uint64_t peak_live_bytes;
    uint64_t final_live_bytes;
    double mean_live_bytes; /* over the time of the plan, from its begin to its end */
};

/* Decodes the first most_events events of the trace at path, or of what the profile there
 * generates with the seed; 0, or an exit code of options.h with a message on stderr. */
int workload_load(const char *path, uint64_t seed, uint64_t most_events, struct workload *workload);

/* Writes the plan to a file, for replayer_inside, which touches as ordered, with contents of that
 * seed; 0, or an exit code as above. */
int workload_save_plan(const struct workload *workload, uint32_t touch, uint64_t seed,
                       const char *path);

/* The same from events in memory (n_events of info); used for calibration and tests. */
int workload_from_events(const struct trace_event *events, const struct trace_info *info,
                         struct workload *workload);

/* Index in the trace of the event that an operation stands for. */
uint64_t workload_event_of(const struct workload *workload, uint64_t op);

void workload_release(struct workload *workload);

/* Live bytes before operation `op` or after it, whichever are more: memory that it gives back is
 * there until then.  By a walk from the start; for the rare peak. */
uint64_t workload_live_during(const struct workload *workload, uint64_t op);

#endif
