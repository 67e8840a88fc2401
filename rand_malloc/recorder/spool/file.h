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

/* Says where spools are, once: the path, which stays the caller's, and a descriptor of that folder
 * that the process may have been given; inode 0: it was not. */
RECORDER_HIDDEN void file_use_folder(const char *folder, int fd, uint64_t inode);

/* Lets the next image of the process have the descriptor of the folder, or no longer; returns
 * descriptor and inode to hand on, zeros where there is none. */
RECORDER_HIDDEN void file_pass_folder(bool is_passed, int *fd, uint64_t *inode);

/* Creates PID.spool in the folder, or PID-2.spool, ... after an exec, with a header of zeros;
 * NULL with errno and what failed, or with errno 0 where the recording is over. */
RECORDER_HIDDEN struct spool_header *file_create(const char **what);

/* Is the whole recording over, by its limit or because its window has ended? */
RECORDER_HIDDEN bool file_is_over(void);

/* Counts one more stride of the whole recording; false: there is no room, or it is over. */
RECORDER_HIDDEN bool file_may_take_stride(void);

/* In a child of fork: closes the parent's file. */
RECORDER_HIDDEN void file_leave(void);

/* The header; NULL: there is no file yet. */
RECORDER_HIDDEN struct spool_header *file_header(void);

/* Name of the file in its folder. */
RECORDER_HIDDEN const char *file_name(void);

/* Number of the process that made it; getpid() is another one in a child of vfork, which is in
 * our memory. */
RECORDER_HIDDEN pid_t file_process(void);

/* False in a child whose memory is a copy: one made behind fork()'s back, or before our handler of
 * fork has run. */
RECORDER_HIDDEN bool file_owns_memory(void);

/* Where it points to 0, file_owns_memory is false: what the hot path can afford to ask. */
extern RECORDER_HIDDEN volatile char *file_mark;

/* Is a stride taken besides the header's?  The first one is the main thread's lane. */
RECORDER_HIDDEN bool file_has_lane(void);

/* Number of the next free stride. */
RECORDER_HIDDEN uint64_t file_take_stride(void);

/* Maps `stride`, backed by allocated disk blocks; NULL and errno. */
RECORDER_HIDDEN void *file_map_stride(uint64_t stride);

/* Writes into the file; 0 or an errno. */
RECORDER_HIDDEN int file_write(const void *bytes, size_t n_bytes, uint64_t offset);

/* Prints to stderr, if it can be: the program gets no signal where it cannot. */
RECORDER_HIDDEN void file_print(const char *text, size_t n_bytes);

/* Gives a descriptor a number out of the program's way; returns the new one. */
RECORDER_HIDDEN int file_move_high(int fd);

#endif
