/* plan.h - what the supervisor hands to the replayer, and what it gets back.
 *
 * The supervisor decodes a trace once into a *plan*: a sealed memfd that every
 * replayer child maps read-only, natively or under an instrument.  A plan is the
 * heap operations in the order of the baton schedule, cut into turns (a run of
 * operations of one thread), plus the places where the heap is sampled.  The
 * *outcome* is a second, writable memfd: the supervisor writes the orders of one
 * run into it, the replayer its progress and its readings.
 *
 * Guarantee: both are position independent (offsets, no pointers), so the same
 * plan serves any number of runs.  Limits: 2^32 - 1 events, blocks below 2^48 bytes.
 */
#ifndef RAND_MALLOC_PLAN_H
#define RAND_MALLOC_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NO_TURN       UINT64_MAX
#define NO_THREAD     UINT32_MAX /* no thread, no lane */
#define OP_SIZE_LIMIT (UINT64_C(1) << 48)
#define PAGE_BYTES    UINT64_C(4096)

/* File descriptors the replayer inherits. */
enum {
    PLAN_FD = 100,
    OUTCOME_FD = 101,
    COUNTER_FD = 102, /* result of the counting plugin */
};

/* One call into the allocator, 24 bytes. */
struct op {
    uint64_t time_ns;  /* since the start of the trace; never decreases within a thread */
    uint32_t slot;     /* below plan.n_slots */
    uint32_t sequence; /* this is the sequence-th operation of its slot, from 0 */
    uint32_t size_low; /* size = size_high * 2^32 + size_low, bytes */
    uint16_t size_high;
    uint8_t kind;    /* enum trace_op, heap operations only */
    uint8_t details; /* base-2 logarithm of the alignment, and OP_IS_PARTIAL */
};
_Static_assert(sizeof(struct op) == 24, "an operation is read 10^6 times: keep it small");

enum {
    OP_ALIGN_MASK = 63,
    OP_IS_PARTIAL = 64, /* the recorded program left pages of the block untouched */
};

/* The heap is read after so many operations, at this time of the trace. */
struct sample_point {
    uint64_t n_ops;
    uint64_t time_ns;
};

/* How much of its block a partial operation touches, from its begin. */
struct partial {
    uint64_t op; /* index into the plan's operations */
    uint64_t touched_bytes;
};

enum turn_flags {
    TURN_STARTS = 1, /* the first turn of its lane */
    TURN_EXITS = 2,  /* the thread really exits at the end of this turn */
};

/* Operations [begin, end) run by one lane without hand-over. */
struct turn {
    uint64_t begin;
    uint64_t end;
    uint64_t next_same_lane; /* NO_TURN for the last one */
    uint64_t exit_ns;        /* TURN_EXITS: when the thread exits */
    uint64_t first_sample;   /* of those that its lane takes: [first_sample, end_sample) */
    uint64_t end_sample;
    uint32_t lane;
    uint32_t flags; /* enum turn_flags */
};

/* One life of a thread of the trace: what a real thread of the replayer does. */
struct lane {
    uint64_t first_turn;    /* NO_TURN if the lane does nothing */
    uint32_t stack;         /* which of plan.n_stacks it runs on; unused by lane 0 */
    uint32_t previous_user; /* lane that had this stack and exits before, or NO_THREAD */
    uint32_t exits;         /* 1: its last turn has TURN_EXITS */
    uint32_t reserved;
};

/* Changes with every change of the layout: a saved plan is for the rand_malloc that saved it. */
#define PLAN_MAGIC UINT64_C(0x376e616c70746d00)

/* Header of the plan; the arrays follow at their offsets. */
struct plan {
    uint64_t magic; /* PLAN_MAGIC */
    uint64_t file_bytes;
    uint64_t n_ops;
    uint64_t n_turns;
    uint64_t n_samples;
    uint64_t n_events; /* of the trace: operations and thread events */
    uint32_t n_lanes;
    uint32_t n_slots;
    uint32_t n_stacks; /* lanes that live at the same time, without lane 0 */
    uint32_t touch;    /* enum touch; of a saved plan, else the orders say it and the seed */
    uint64_t seed;     /* of the block contents */
    uint64_t begin_ns; /* start of the process; of the first event where it is not known */
    uint64_t end_ns;   /* end of the process; of the last event where it is not known */
    uint64_t ops_offset;
    uint64_t turns_offset;
    uint64_t lanes_offset;
    uint64_t samples_offset;  /* struct sample_point, ascending; see below */
    uint64_t partials_offset; /* by operation, ascending */
    uint64_t n_partials;
};

/* Samples before those of the first turn are taken at the start of the process, where that is
 * known; those behind the last turn's up to its end. */

static inline const void *plan_at(const struct plan *plan, uint64_t offset) {
    return (const char *)plan + offset;
}

static inline unsigned op_align_log2(const struct op *op) {
    return op->details & OP_ALIGN_MASK;
}

static inline uint64_t op_size(const struct op *op) {
    return (uint64_t)op->size_high << 32 | op->size_low;
}

/* Size, kind and details in one word: for a malloc that is touched whole the size alone. */
static inline uint64_t op_bits(const struct op *op) {
    return op_size(op) | (uint64_t)op->kind << 48 | (uint64_t)op->details << 56;
}

enum run_kind {
    RUN_MEMORY = 0, /* native: heap, faults, system calls, time */
    RUN_COUNT = 1,  /* under an instrument: instructions */
    RUN_EMPTY = 2,  /* as RUN_COUNT, but no operation is replayed: what start-up costs */
    RUN_TIME = 3,   /* native, and nothing but time and faults is read */
    RUN_INSIDE = 4, /* in a simulated machine, which knows no marks: nothing is read */
};

enum touch {
    TOUCH_ALL = 0,
    TOUCH_ENDS = 1,
    TOUCH_NONE = 2,
    TOUCH_ZEROS = 3,    /* all pages, half of the blocks with zeros between their ends */
    TOUCH_RECORDED = 4, /* what the recorded program touched; all pages where that is not known */
    TOUCH_RECORDED_ENDS = 5 /* the ends of that */
};

/* What the supervisor asks for. */
struct orders {
    uint32_t kind;         /* enum run_kind */
    uint32_t touch;        /* enum touch */
    uint32_t free_running; /* 1: no baton, latencies are measured */
    uint32_t traced;       /* 1: a tracer is attached, install the filter */
    uint32_t use_perf;     /* 1: count with perf_event_open in the replayer */
    uint32_t cpus;         /* number of processors the allocator is shown */
    uint64_t seed;         /* of the block contents */
};

enum stage {
    STAGE_NONE = 0,
    STAGE_READY = 1,
    STAGE_RUNNING = 2,
    STAGE_DONE = 3,
    STAGE_FAILED = 4
};

enum failure_kind {
    FAILURE_NONE = 0,
    FAILURE_NULL,      /* the allocator returned NULL */
    FAILURE_ALIGNMENT, /* detail = address */
    FAILURE_CONTENT,   /* detail = offset of the first wrong word in the block */
    FAILURE_NOT_ZERO,  /* calloc; detail = offset */
    FAILURE_SETUP,     /* the replayer itself could not be set up; detail = errno */
};

struct failure {
    uint32_t kind; /* enum failure_kind */
    uint32_t reserved;
    uint64_t op; /* index into the plan's operations */
    uint64_t detail;
    char what[96]; /* FAILURE_SETUP: the step */
};

/* One reading of the heap. */
struct sample {
    uint64_t anonymous_bytes; /* RssAnon of the replayer */
    int64_t lazy_bytes;       /* LazyFree, or -1 where it was not read */
    uint64_t faults;          /* minor faults in the region so far */
};

#define LATENCY_KINDS 3 /* malloc (with calloc and aligned), realloc, free */
/* 2^5 linear steps per power of two: values are right to 1/32. */
#define LATENCY_STEP_BITS 5
#define LATENCY_BUCKETS   ((64 - LATENCY_STEP_BITS + 1) << LATENCY_STEP_BITS)

struct histogram {
    uint64_t counts[LATENCY_BUCKETS];
    uint64_t max; /* in ticks of the clock */
    uint64_t sum; /* of all values, in the same */
};

/* Header of the outcome; samples and histograms follow. */
struct outcome {
    struct orders orders; /* written by the supervisor before the run */
    _Atomic uint32_t stage;
    _Atomic uint32_t lazy_seen; /* there may be some: from the first MADV_FREE on, if traced */
    _Atomic uint64_t n_traced;  /* calls that the tracer has seen in the region */
    _Atomic uint64_t progress;  /* index of the operation being replayed */
    struct failure failure;
    uint64_t baseline_anonymous_bytes;
    uint64_t baseline_rss_bytes;
    uint64_t begin_anonymous_bytes; /* with what the allocator holds already */
    uint64_t watermark_bytes;       /* VmHWM at the end; 0 if it could not be reset */
    uint64_t faults;                /* minor faults in the region */
    uint64_t wall_ns;
    uint64_t cpu_ns;             /* user and system time of the process in the region */
    uint64_t ticks;              /* of the latency clock in the region */
    uint64_t sleeps;             /* times a thread gave its processor up to wait */
    uint64_t preemptions;        /* times a thread was taken off its processor, or yielded */
    uint64_t edge_waits;         /* free-running: operations that waited for their block */
    uint64_t edge_wait_ticks;    /* ... and for how long, over all threads */
    uint64_t instructions;       /* use_perf: of the whole process in the region */
    uint64_t instructions_valid; /* 1 if the counter ran all the time */
    uint64_t checksum;
    uint64_t verified_blocks;
    uint64_t samples_offset;    /* struct sample per plan sample */
    uint64_t histograms_offset; /* LATENCY_KINDS struct histogram, 0 = none */
    uint64_t file_bytes;
    char malloc_from[1024]; /* file that defines malloc */
};

/* System calls the replayer makes to show where the region begins and ends.  The
 * numbers are far above any real call: the kernel answers ENOSYS; the tracer and
 * the counting plugin see them. */
#define MARK_BEGIN 0x6d6101
#define MARK_END   0x6d6102

#endif
