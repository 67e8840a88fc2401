/* schedule.h - the order in which the lanes of a trace take turns.
 *
 * A recorded trace interleaves threads event by event.  Handing the baton over that often
 * would cost more than the allocator, so the order is coarsened: a thread keeps the
 * baton for up to SCHEDULE_TURN_EVENTS events or SCHEDULE_TURN_NS of trace time beyond the
 * oldest event that still waits, and stops early where an event needs a block, or a
 * free slot, that another thread has not produced yet.
 *
 * Guarantee: every lane's own order and every slot's order are those of the trace.
 * Effect: events of different threads that are less than SCHEDULE_TURN_NS apart may
 * change places, so the live heap may differ from the recorded one by what is allocated in
 * that time; with one thread nothing changes.
 * A thread number that starts again after its exit becomes a new lane: a real thread lives
 * once.
 * Algorithm: always run the thread of the oldest waiting event.  That event can run, since
 * all before it have; O(events).
 */
#ifndef RAND_MALLOC_SCHEDULE_H
#define RAND_MALLOC_SCHEDULE_H

#include "plan.h"
#include "trace.h"

#define SCHEDULE_TURN_EVENTS 1000u
#define SCHEDULE_TURN_NS     UINT64_C(200000)

struct schedule {
    uint32_t *order;     /* [n_events] index of the event that runs as the i-th */
    uint32_t *sequences; /* [n_events] number of an event among those of its slot, by event */
    uint32_t *lane_of;   /* [n_events] by event; each life of a thread is a lane of its own */
    struct turn *turns;  /* [n_turns] begin and end count positions in order */
    uint64_t n_turns;
    uint64_t turn_capacity;
    struct lane *lanes; /* [n_lanes] */
    uint32_t n_lanes;   /* at least 1: lane 0 is thread 0 */
    uint32_t n_stacks;
};

/* Fills *schedule from events in global order; false if memory is short (what was
 * allocated is released).  Threads and slots must be below the given counts. */
bool schedule_build(const struct trace_event *events, uint32_t n_events, uint32_t n_threads,
                    uint32_t n_slots, struct schedule *schedule);

/* The same for one thread without events of threads; it has nothing but a lane and a turn. */
bool schedule_single(uint64_t n_events, struct schedule *schedule);

void schedule_release(struct schedule *schedule);

#endif
