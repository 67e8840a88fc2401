/* recorder.h - the inside of librecorder.so.
 *
 *   hooks_c.c, hooks_cxx.c   the names a program calls: real call and record()
 *   hooks_exec.c             exec of another program in the same process
 *   recorder.h               record(): the hot path
 *   lanes.c                  buffers of threads: attach, archive, hand on
 *   touch.c                  what the program touched of large blocks
 *   process.c                start, configuration, spool file, fork, stop
 *   real.c                   the allocator behind
 */
#ifndef MALLOC_TUNER_RECORDER_RECORDER_H
#define MALLOC_TUNER_RECORDER_RECORDER_H

#include "clock.h"
#include "spool.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RECORDER_HIDDEN __attribute__((visibility("hidden")))
#define RECORDER_EXPORT __attribute__((visibility("default")))
#define RECORDER_COLD   __attribute__((cold, noinline))

/* The buffer this thread writes into; NULL: none yet, or recording is off. */
extern RECORDER_HIDDEN __thread struct lane *own_lane __attribute__((tls_model("initial-exec")));

/* Gives this thread a lane; NULL when recording is off.  Keeps errno. */
RECORDER_HIDDEN RECORDER_COLD struct lane *lanes_attach(void);

/* The rare record: no lane yet, buffer full, long pause, big size, far address. */
RECORDER_HIDDEN RECORDER_COLD void lanes_record_slowly(unsigned code, unsigned align_log2,
                                                       uint64_t address, uint64_t size,
                                                       uint64_t stamp, uint32_t touch_number);

/* Records an allocation that is not small: what is touched of it is measured. */
RECORDER_HIDDEN RECORDER_COLD void lanes_record_large(unsigned code, unsigned align_log2,
                                                      const void *block, size_t size);

/* Forgets all lanes: in a new process. */
RECORDER_HIDDEN void lanes_reset(void);

/* Opens the spool on the first call; true while recording is on. */
RECORDER_HIDDEN bool process_is_recording(void);

/* True when an exec by this process should record the new image too. */
RECORDER_HIDDEN bool process_continues_in_new_image(void);

/* Its number; getpid() is another one in a child of vfork, which is in our memory. */
RECORDER_HIDDEN pid_t process_number(void);

/* False in a child made behind fork()'s back, whose memory is a copy. */
RECORDER_HIDDEN bool process_owns_memory(void);

/* Gives a descriptor a number out of the program's way; returns the new one. */
RECORDER_HIDDEN int process_move_high(int fd);

/* Path of this library. */
RECORDER_HIDDEN const char *process_library(void);

/* Writes "MALLOC_TUNER_RECORD=..." for a program that is executed now, and how much room that
 * takes. */
RECORDER_HIDDEN void process_write_setting(char *setting);
RECORDER_HIDDEN size_t process_setting_bytes(void);

/* Notes that the process is about to exit or to become another program, or that it failed to. */
RECORDER_HIDDEN void process_ends(bool is_at_end);

/* Stops recording for good with one line on stderr. */
RECORDER_HIDDEN void process_stop(int error_number, const char *what);

/* Maps `stride` of the spool, backed by allocated disk blocks; NULL and errno. */
RECORDER_HIDDEN void *process_map_stride(uint64_t stride);

/* Number of the next free stride. */
RECORDER_HIDDEN uint64_t process_take_stride(void);

/* Writes into the spool; 0 or an errno. */
RECORDER_HIDDEN int process_write(const void *bytes, size_t n_bytes, uint64_t offset);

/* Appends one record to this thread's buffer: a word, what the next one is
 * relative to, and a counter. */
static inline void record(enum record_short code, const void *block, size_t size, uint64_t stamp) {
    const uint64_t reach = UINT64_C(1) << (63 - SHORT_ADDRESS_SHIFT + ADDRESS_UNIT_BITS);
    uint64_t address = (uintptr_t)block;
    struct lane *lane = own_lane;
    if (__builtin_expect(lane != NULL, 1)) {
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
