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
 * Cost: O(log of the waiting steps) per event, memory proportional to the lives in
 * progress and to the largest window.
 */
#ifndef RAND_MALLOC_PROFILE_GENERATOR_H
#define RAND_MALLOC_PROFILE_GENERATOR_H

#include "profile.h"
#include "trace.h"

struct generator;

/* NULL when memory is short.  The profile must outlive the generator. */
struct generator *generator_open(const struct profile *profile, uint64_t seed);

/* The next event: TRACE_OK, TRACE_END or TRACE_ERROR_MEMORY; owner is left 0. */
int generator_next(struct generator *generator, struct trace_event *event);

void generator_close(struct generator *generator);

#endif
