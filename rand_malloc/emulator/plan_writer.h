/* plan_writer.h - writes the plan of a workload, operation by operation, as its events come.
 *
 * The events need not be in memory together: what the plan says of an operation follows from
 * it, its slot's past and the time of the next one.
 *
 * Samples are taken after every 1/10 000 of the operations, after every 1/10 000 of
 * the time, and before every pause of that length, so that a mean weighted by time
 * is not wrong where the program slept; up to 500 times within pauses of more than 0.1 s, in which
 * threads of the allocator may act; and at the start and the end of the process, where these
 * are known.  Means are over the time from its start to its end, or where one of them is not known
 * from the first event or to the last.
 */
#ifndef RAND_MALLOC_PLAN_WRITER_H
#define RAND_MALLOC_PLAN_WRITER_H

#include "schedule.h"
#include "workload.h"

/* Where it is not known what the program touched of a large block, as the last known one of the
 * same size and function was touched: a recorder looks at as many blocks as cost next to nothing.
 */
#define KNOWN_TOUCH_BITS 8

struct known_touch {
    uint64_t size;
    uint32_t touch; /* of struct trace_event, 0: none */
    uint8_t op;
};

/* What is known before the first event. */
struct plan_extent {
    uint64_t n_ops;    /* at most */
    uint64_t first_ns; /* time of the first event */
    uint64_t last_ns;  /* of the last one, at the latest */
    struct trace_life life;
};

/* The plan while it is being written. */
struct plan_writer {
    struct workload *workload;
    struct trace_life life;
    struct plan *plan; /* mapped */
    struct op *ops;
    struct sample_point *samples;
    struct partial *partials;
    struct known_touch known[1 << KNOWN_TOUCH_BITS]; /* by hash: the last one */
    struct slot_state *slots;                        /* [slot_capacity] */
    size_t slot_capacity;
    uint64_t n_ops; /* so far */
    uint64_t live_bytes;
    uint64_t now_ns;
    uint64_t sampled_ns; /* time and operations at the last sample */
    uint64_t sampled_ops;
    uint64_t sample_ns; /* time and operations from one sample to the next, at most */
    uint64_t sample_ops;
    uint64_t idle_ns;     /* from one sample to the next in a pause */
    uint64_t n_idle;      /* samples in pauses */
    bool is_sampled;      /* nothing has happened since the last sample */
    double live_integral; /* bytes * ns */
};

/* Makes an empty plan for the lanes and turns of the schedule in the workload; false, as of all
 * below, when that fails, with errno. */
bool plan_writer_open(struct plan_writer *writer, const struct plan_extent *extent,
                      const struct schedule *schedule, struct workload *workload);

/* Appends heap events in the order in which they will run. */
bool plan_writer_add(struct plan_writer *writer, const struct trace_event *events, size_t n_events);

/* Around the operations of a turn where there are several: numbers it in operations.  last_ns is
 * the time of its last event, an exit if it has one: what a thread gives back then is read where
 * time passes before the next event. */
void plan_writer_begin_turn(struct plan_writer *writer, uint64_t index);
void plan_writer_end_turn(struct plan_writer *writer, uint64_t index, uint64_t last_ns);

/* Ends the plan and seals it: what info says of the events is known by now. */
bool plan_writer_finish(struct plan_writer *writer, const struct trace_info *info);

/* Whether it was finished or not. */
void plan_writer_close(struct plan_writer *writer);

#endif
