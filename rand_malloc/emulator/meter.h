/* meter.h - the replayer's readings of itself: resident memory, faults, time.
 *
 * All files are opened and all code is run once before the region, so a reading costs
 * no page fault.  Sources: proc(5), statm and status and smaps_rollup and clear_refs.
 */
#ifndef RAND_MALLOC_METER_H
#define RAND_MALLOC_METER_H

#include "harness.h"

/* Makes all file mappings and a piece of the stack resident, so that the region's
 * resident memory grows by heap only.  No effect on failure. */
void meter_prefault(void);

/* Opens what is read later; failures are setup failures. */
void meter_open(struct replay *replay);

/* Takes the baselines, which leave out what the allocator holds already, and resets the high-water
 * mark. */
void meter_begin_heap(struct replay *replay);
void meter_end_heap(struct replay *replay);

/* Starts and stops the clocks; innermost around the region. */
void meter_begin_time(void);
void meter_end_time(struct outcome *outcome);

/* Reads the heap now into sample `index`. */
void meter_sample(struct replay *replay, uint64_t index);

#endif
