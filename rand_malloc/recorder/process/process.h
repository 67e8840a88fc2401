/* process.h - whether this process is recorded, and its start, end and stop. */
#ifndef MALLOC_TUNER_RECORDER_PROCESS_H
#define MALLOC_TUNER_RECORDER_PROCESS_H

#include "base/symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_VARIABLE  "MALLOC_TUNER_RECORD="
#define PRELOAD_VARIABLE "LD_PRELOAD="

/* Opens the spool on the first call; true while recording is on. */
RECORDER_HIDDEN bool process_is_recording(void);

/* The same when the library was loaded; from then on its path is known. */
RECORDER_HIDDEN bool process_start(void);

/* Are children recorded, too? */
RECORDER_HIDDEN bool process_is_following(void);

/* In the child of a fork, whose only thread had this lane (0: none). */
RECORDER_HIDDEN void process_forked(uint64_t fork_stamp, uint32_t fork_lane);

/* True when an exec by this process should record the new image too. */
RECORDER_HIDDEN bool process_continues_in_new_image(void);

/* Path of this library; "" before process_start. */
RECORDER_HIDDEN const char *process_library(void);

/* Writes RECORD_VARIABLE and its value for a program that is executed now, and how much room
 * that takes. */
RECORDER_HIDDEN void process_write_setting(char *setting);
RECORDER_HIDDEN size_t process_setting_bytes(void);

/* Notes that the process is about to exit or to become another program, or that it failed to. */
RECORDER_HIDDEN void process_ends(bool is_at_end);

/* Takes back what process_write_setting left open for a child. */
RECORDER_HIDDEN void process_has_spawned(void);

/* An exec failed: the process goes on as it was. */
RECORDER_HIDDEN void process_goes_on(void);

/* Notes what the process calls itself now. */
RECORDER_HIDDEN void process_note_title(void);

/* Counts one more stride; where the recording is over, it stops. */
RECORDER_HIDDEN bool process_may_take_stride(void);

/* Stops recording for good; with one line on the stderr that the program was started with, unless
 * error_number is 0. */
RECORDER_HIDDEN void process_stop(int error_number, const char *what);

#endif
