/* harness.h - what all parts of the replayer share: its state, its memory, how it fails.
 *
 * The child allocates nothing from the C heap: its tables are populated mmaps, so
 * inside the region it causes no page fault and no memory system call of its own.
 */
#ifndef RAND_MALLOC_HARNESS_H
#define RAND_MALLOC_HARNESS_H

#include "plan.h"

/* Where a live block of the trace is now. */
struct block {
    void *address;             /* NULL: none, or a block of 0 bytes */
    uint64_t stamped;          /* bytes from its begin that carry stamps: all, or what is touched */
    _Atomic uint32_t sequence; /* the operation of this slot that comes next */
    uint32_t live;             /* 1 between allocation and free */
};

/* The work of one replayer; set up once, then read by all lanes. */
struct replay {
    const struct plan *plan;
    const struct op *ops;
    const struct turn *turns;
    const struct lane *lanes;
    const struct sample_point *sample_points;
    const struct partial *partials;
    struct outcome *outcome;
    struct sample *samples;
    struct histogram *histograms; /* [n_stacks + 1][LATENCY_KINDS], or NULL */
    struct block *blocks;         /* [n_slots] */
    char *stacks;                 /* [n_stacks][STACK_BYTES] */
    enum touch touch;
    uint64_t seed;
    bool is_free_running;
    bool takes_samples;
    uint64_t harness_bytes; /* of map_populated, so far */
    bool is_empty;          /* replays nothing */
};

#define STACK_BYTES (UINT64_C(128) * 1024)

/* What one thread has added up; summed at the end. */
struct tally {
    uint64_t checksum;
    uint64_t verified_blocks;
    uint64_t edge_waits;      /* operations that waited for another thread's */
    uint64_t edge_wait_ticks; /* of the latency clock */
};

/* Never return: report the failure and end the process. */
_Noreturn void replay_fail(struct replay *replay, enum failure_kind kind, uint64_t op,
                           uint64_t detail);
_Noreturn void setup_fail(struct replay *replay, const char *step, long error);

/* Populated private memory of small pages outside of the measured heap; fails through setup_fail.
 */
void *map_populated(struct replay *replay, uint64_t bytes, const char *what);

#endif
