/* file.h - the spool file of this process and the memory it is mapped to.
 *
 * The program may close or reuse any descriptor: before each use ours is compared with the
 * file it should be and opened again if it is not.  All system calls go through syscall():
 * no cancellation points are added.
 */
#ifndef MALLOC_TUNER_RECORDER_FILE_H
#define MALLOC_TUNER_RECORDER_FILE_H

#include "base/symbols.h"
#include "spool/spool.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Creates PID.spool in the folder, or PID-2.spool, ... after an exec, with a header of zeros;
 * NULL with errno and what failed. */
RECORDER_HIDDEN struct spool_header *file_create(const char *folder, const char **what);

/* In a child of fork: closes the parent's file. */
RECORDER_HIDDEN void file_leave(void);

/* The header; NULL: there is no file yet. */
RECORDER_HIDDEN struct spool_header *file_header(void);

/* Name of the file in its folder. */
RECORDER_HIDDEN const char *file_name(void);

/* Number of the process that made it; getpid() is another one in a child of vfork, which is in
 * our memory. */
RECORDER_HIDDEN pid_t file_process(void);

/* False in a child made behind fork()'s back, whose memory is a copy. */
RECORDER_HIDDEN bool file_owns_memory(void);

/* Is a stride taken besides the header's?  The first one is the main thread's lane. */
RECORDER_HIDDEN bool file_has_lane(void);

/* Number of the next free stride. */
RECORDER_HIDDEN uint64_t file_take_stride(void);

/* Maps `stride`, backed by allocated disk blocks; NULL and errno. */
RECORDER_HIDDEN void *file_map_stride(uint64_t stride);

/* Writes into the file; 0 or an errno. */
RECORDER_HIDDEN int file_write(const void *bytes, size_t n_bytes, uint64_t offset);

/* Gives a descriptor a number out of the program's way; returns the new one. */
RECORDER_HIDDEN int file_move_high(int fd);

#endif
