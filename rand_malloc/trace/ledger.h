/* ledger.h - the heap as a trace describes it, event by event.
 *
 * One ledger walks beside the reader and one beside the writer.  It refuses an
 * event that breaks a rule of trace.h, fills in the owner of the block, and
 * keeps the totals.
 *
 * Invariants: live_blocks == number of slots with is_live; live_bytes == sum of
 * their bytes; a slot that is not live carries the thread that freed it.
 */
#ifndef MALLOC_TUNER_TRACE_LEDGER_H
#define MALLOC_TUNER_TRACE_LEDGER_H

#include "trace.h"

/* Far above any address space; one size more cannot overflow 64 bits. */
#define LEDGER_MAX_LIVE_BYTES (UINT64_C(1) << 62)

struct ledger_slot {
    uint64_t bytes;   /* requested size while live */
    uint32_t owner;   /* live: which thread allocated or reallocated last; free: which freed */
    uint32_t is_live; /* 0 or 1 */
};

struct ledger {
    struct ledger_slot *slots; /* slot_capacity entries, n_slots of them used */
    size_t slot_capacity;
    uint8_t *is_running; /* TRACE_MAX_THREADS entries */
    uint32_t page_bytes; /* of the recorded machine; set by what opened the ledger, 0: no event
                          * may have a touch */
    uint32_t n_slots;
    uint32_t n_threads; /* lanes ever used, at least 1 */
    uint64_t n_events;
    uint64_t time_ns; /* of the last event */
    uint64_t live_bytes;
    uint64_t live_blocks;
    uint64_t peak_live_bytes;
    uint64_t peak_live_blocks;
};

/* False when there is no memory. */
int ledger_open(struct ledger *ledger);

/* Applies the event and sets event->owner.  Returns NULL, or a sentence that
 * says which rule the event breaks; the ledger is then unchanged. */
const char *ledger_apply(struct ledger *ledger, struct trace_event *event);

void ledger_close(struct ledger *ledger);

#endif
