/* generator.h - the events of a profile, one after the other, from a seed.
 *
 * Within a window the lives are dealt in random order to the places of its allocations;
 * fixed lives keep theirs.  What a life does later waits in a queue ordered by due moment:
 * the tick, then the window, then a rank that makes bursts of frees run youngest or
 * oldest first as often as they did in the program.  A step whose thread does not run when
 * it is due happens at the nearest end of that thread's life, or in thread 0 if it has none.
 *
 * Guarantees: the same profile and seed give the same events everywhere; every window has
 * exactly its allocations; each life ends once; the rules of trace.h hold.
 * Cost: O(1) per event; memory proportional to the lives in progress and to the largest window.
 */
#ifndef RAND_MALLOC_PROFILE_GENERATOR_H
#define RAND_MALLOC_PROFILE_GENERATOR_H

#include "profile.h"
#include "trace.h"

struct generator;

/* Of the events so far. */
struct generator_totals {
    uint64_t n_events;
    uint64_t time_ns; /* of the last event */
    uint64_t live_bytes;
    uint64_t live_blocks;
    uint64_t peak_live_bytes;
    uint64_t peak_live_blocks;
    uint32_t n_slots;
};

/* NULL when memory is short.  The profile must outlive the generator. */
struct generator *generator_open(const struct profile *profile, uint64_t seed);

/* Fills up to capacity events, *n_read is their number.  TRACE_OK with at least one event,
 * else TRACE_END; TRACE_ERROR_MEMORY; or TRACE_ERROR_FORMAT: the live bytes, each of whose
 * blocks is allowed, are more than a trace can hold. */
int generator_read(struct generator *generator, struct trace_event *events, size_t capacity,
                   size_t *n_read);

void generator_get_totals(const struct generator *generator, struct generator_totals *totals);

void generator_close(struct generator *generator);

#endif
