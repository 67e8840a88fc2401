/* record.h - record(), the hot path, and the slow ones behind it (lanes.c).
 *
 * The layers of librecorder.so, from the bottom; each uses only those before it:
 *
 *   base      the clock, the allocator behind
 *   spool     the file that events are written to
 *   touch     what the program touched of large blocks
 *   process   settings, start, end and stop of the recording
 *   thread    buffers of threads: attach, archive, hand on
 *   entry     the names a program calls
 *
 * builder/ turns a spool into a trace, in a program of its own.
 */
#ifndef MALLOC_TUNER_RECORDER_RECORD_H
#define MALLOC_TUNER_RECORDER_RECORD_H

#include "base/clock.h"
#include "base/symbols.h"
#include "spool/file.h" /* file_mark */
#include "spool/spool.h"

#include <stddef.h>

/* The buffer this thread writes into; NULL: none yet, or recording is off. */
extern RECORDER_HIDDEN __thread struct lane *own_lane __attribute__((tls_model("initial-exec")));

/* Gives this thread a lane; NULL when recording is off.  Keeps errno. */
RECORDER_HIDDEN RECORDER_COLD struct lane *lanes_attach(void);

/* The rare record: no lane yet, buffer full, long pause, big size, far address, a child in whose
 * copy of our memory the lane is the parent's. */
RECORDER_HIDDEN RECORDER_COLD void lanes_record_slowly(unsigned code, unsigned align_log2,
                                                       uint64_t address, uint64_t size,
                                                       uint64_t stamp, uint32_t touch_number);

/* Records an allocation that is not small: what is touched of it is measured. */
RECORDER_HIDDEN RECORDER_COLD void lanes_record_large(unsigned code, unsigned align_log2,
                                                      const void *block, size_t size);

/* Forgets all lanes: in a new process. */
RECORDER_HIDDEN void lanes_reset(void);

/* Appends one record to this thread's buffer: a word, what the next one is
 * relative to, and a counter. */
static inline void record(enum record_short code, const void *block, size_t size, uint64_t stamp) {
    const uint64_t reach = UINT64_C(1) << (63 - SHORT_ADDRESS_SHIFT + ADDRESS_UNIT_BITS);
    uint64_t address = (uintptr_t)block;
    struct lane *lane = own_lane;
    if (__builtin_expect(lane != NULL && *file_mark != 0, 1)) {
        uint64_t state = lane->state;
        uint64_t elapsed = stamp - lane->last_stamp;
        uint64_t distance = address - lane->last_address;
        uint64_t is_long = elapsed >> SHORT_ELAPSED_BITS | size >> SHORT_SIZE_BITS |
                           (distance + reach) / (2 * reach) |
                           (distance & ((1 << ADDRESS_UNIT_BITS) - 1));
        uint32_t n = (uint32_t)state;
        if (__builtin_expect(n < LANE_WORDS && is_long == 0, 1)) {
            lane->words[n] = (uint64_t)code | size << SHORT_SIZE_SHIFT |
                             elapsed << SHORT_ELAPSED_SHIFT |
                             distance >> ADDRESS_UNIT_BITS << SHORT_ADDRESS_SHIFT;
            lane->last_stamp = stamp;
            lane->last_address = address;
            /* Behind the record: a killed process never shows a half-written one. */
            __atomic_store_n(&lane->state, state + 1, __ATOMIC_RELEASE);
            return;
        }
    }
    lanes_record_slowly(record_codes[code], 0, address, size, stamp, 0);
}

#endif
