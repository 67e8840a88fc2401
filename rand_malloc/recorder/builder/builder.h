/* builder.h - from addresses to slots: the events of spools become a trace.
 *
 * Keeps the map from address to slot, gives freed slots to the thread that freed
 * them (trace.h), numbers the threads, and repairs what the clocks inverted:
 *
 *   free seen before its allocation  the free waits; when another lane allocates
 *                                    the address within the window, both are
 *                                    written, in the right order
 *   allocation at a live address     the block there is freed first; its own free,
 *                                    when it comes within the window, is dropped
 *
 * A free or realloc of an address that was never allocated is dropped and counted.
 */
#ifndef MALLOC_TUNER_RECORDER_BUILDER_H
#define MALLOC_TUNER_RECORDER_BUILDER_H

#include "builder/address_map.h"
#include "builder/living.h"
#include "builder/spool_reader.h"
#include "trace.h"

enum {
    BUILDER_BATCH = 512, /* stays in the first-level cache between builder and writer */
    BUILDER_AHEAD = 32,
    BUILDER_RING = 64
};

/* What a thread of the trace is doing. */
struct builder_thread {
    uint32_t free_slot;    /* top of its list of free slots, or NO_SLOT */
    uint32_t pending_slot; /* slot inside a realloc, or NO_SLOT */
    uint64_t pending_address;
    bool is_running;
};

/* An event that waits for its partner. */
struct builder_odd {
    uint64_t address; /* 0: unused */
    uint64_t stamp;
    uint32_t thread;
    uint8_t code;
};

struct builder_counts {
    uint64_t foreign_frees;    /* frees and reallocs of blocks not in the recording */
    uint64_t repaired_events;  /* inversions put right */
    uint64_t inherited_blocks; /* that lived when the trace began */
};

struct builder {
    struct trace_writer *writer;
    struct address_map map;
    uint32_t *next_free; /* by slot: the next of the same list */
    size_t slot_capacity;
    uint32_t n_slots;
    struct builder_thread *threads; /* TRACE_MAX_THREADS */
    uint32_t n_threads;
    uint32_t *lane_threads; /* by lane of the current spool: thread, or NO_THREAD */
    size_t n_lanes;
    uint64_t start_stamp; /* of the first recording ... */
    double lead_ns;       /* ... that long after time 0, when its process began */
    double ns_per_stamp;
    uint64_t window_stamps; /* how far clocks may disagree */
    uint64_t now_stamp;     /* of the event in work */
    bool is_quiet;          /* nothing is written yet: events only say what lives */
    uint64_t begin_stamp;   /* while quiet: the first event from here on ends that */
    uint32_t first_thread;  /* of the current spool's first lane */
    struct living living;
    struct builder_odd early_frees[BUILDER_RING];
    struct builder_odd owed_frees[BUILDER_RING];
    unsigned n_early; /* ever put into the ring */
    unsigned n_owed;
    struct builder_counts counts;
    struct spool_event ahead[BUILDER_AHEAD]; /* read together, so that their places in the map
                                              * can be fetched while others are in work */
    struct trace_event batch[BUILDER_BATCH];
    size_t n_batch;
    int status; /* TRACE_OK, or why it failed */
};

/* Begins a trace whose time 0 is the start of the process of `first`, or of its recording if
 * that is not known; false: no memory. */
bool builder_open(struct builder *builder, struct trace_writer *writer, const struct spool *first);

/* From now on events are not written: they only say what lives when the trace begins. */
void builder_be_quiet(struct builder *builder);

/* Lets the trace begin at the stamp, which is its time 0, with the blocks that live then, as soon
 * as an event at the stamp or later is added; of a trace without such an event nothing is written.
 */
void builder_begin_at(struct builder *builder, uint64_t stamp);

/* Time in the trace of a stamp that is not before the recording. */
uint64_t builder_time_ns(const struct builder *builder, uint64_t stamp);

/* Adds all events of the spool.  first_thread is the thread that its first lane
 * continues: 0, or what builder_fork returned. */
int builder_add(struct builder *builder, struct spool *spool, uint32_t first_thread);

/* The spool just added is that of a parent: all threads end but the one of the
 * lane that forked, whose number is returned. */
uint32_t builder_fork(struct builder *builder, const struct spool *parent, uint32_t fork_lane);

/* Writes what is left; a status of trace.h. */
int builder_finish(struct builder *builder);

/* Why a status is not TRACE_OK, where the writer does not say. */
const char *builder_message(int status);

void builder_close(struct builder *builder);

#endif
