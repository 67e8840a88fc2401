/* replayer.h - the child process that calls the allocator; its parts and who owns them.
 *
 * replayer.c  sets up, marks the region, reports
 * replay.c    performs operations: call, touch, verify
 * lanes.c     one lane per recorded thread: baton, start, exit
 * meter.c     reads the heap, faults and time
 *
 * The child allocates nothing from the C heap: its tables are populated mmaps, so
 * inside the region it causes no page fault and no memory system call of its own.
 */
#ifndef RAND_MALLOC_REPLAYER_H
#define RAND_MALLOC_REPLAYER_H

#include "plan.h"

/* Where a live block of the trace is now. */
struct block {
    void *address; /* NULL: none, or a block of 0 bytes */
    uint64_t bytes;
    _Atomic uint32_t sequence; /* the operation of this slot that comes next */
    uint32_t live;             /* 1 between allocation and free */
};

/* The work of one replayer; set up once, then read by all lanes. */
struct replay {
    const struct plan *plan;
    const struct op *ops;
    const struct turn *turns;
    const struct lane *lanes;
    const uint64_t *sample_points;
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

/* The hidden argument that makes rand_malloc a replayer. */
#define REPLAYER_ARGUMENT "--replay-plan"

int replayer_main(void);

#define STACK_BYTES (UINT64_C(128) * 1024)

/* What one thread has added up; the harness sums them at the end. */
struct tally {
    uint64_t checksum;
    uint64_t verified_blocks;
};

/* Never returns: reports the failure and ends the process. */
_Noreturn void replay_fail(struct replay *replay, enum failure_kind kind, uint64_t op,
                           uint64_t detail);
_Noreturn void setup_fail(struct replay *replay, const char *step, long error);

/* Performs operations [begin, end) of the plan as the given lane. */
void replay_ops(struct replay *replay, uint32_t lane, uint64_t begin, uint64_t end,
                struct tally *tally);

/* Verifies the blocks that live on after the last operation; they are in no tally. */
void replay_verify_rest(struct replay *replay);

/* Maps what the lanes need; before the region. */
void lanes_prepare(struct replay *replay);

/* Runs all lanes to the end; the caller is thread 0 of the trace. */
void lanes_run(struct replay *replay);

/* Adds up what the lanes verified. */
void lanes_total(const struct replay *replay, struct tally *total);

/* Populated private memory outside of the measured heap; fails through setup_fail. */
void *map_populated(struct replay *replay, uint64_t bytes, const char *what);

/* Text of waiting and hand-over: how much of it runs inside the region depends on the
 * scheduler, so it is not counted. */
#define WAITING __attribute__((noinline, section("rand_malloc_wait")))
extern const char __start_rand_malloc_wait[];
extern const char __stop_rand_malloc_wait[];

/* The executable's own text is [__executable_start, etext); set by the linker. */
extern const char __executable_start[], etext[];

#endif
