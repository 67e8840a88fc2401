/* spool.h - the raw recording of one process, written by librecorder.so and
 * turned into a trace by build_trace.
 *
 *   file   = stride*            every stride is SPOOL_STRIDE_BYTES long
 *   stride 0                    struct spool_header
 *   other strides               struct lane: either the home of a lane (the buffer a
 *                               thread writes into, mapped shared) or a full buffer
 *                               that was archived; a home has home == its own number
 *
 * A lane is a sequence of threads, one after the other: a buffer that outlives
 * its thread and is taken over by a later one.  Because homes are shared
 * mappings of the file, the kernel keeps every record even when the process is
 * killed; nothing has to be flushed at exit.
 *
 * Order: an allocation is stamped after the real call returned, a free before
 * the real call, a realloc on both sides.  So between two stamps of one address
 * nobody else can hold it, and sorting by stamp gives a legal history.
 *
 * Machine-bound: read it on the machine and build that wrote it.
 */
#ifndef MALLOC_TUNER_RECORDER_SPOOL_H
#define MALLOC_TUNER_RECORDER_SPOOL_H

#include <stdint.h>

#define SPOOL_MAGIC      "MTSPOOL\n"
#define SPOOL_VERSION    1u
#define SPOOL_LANE_MAGIC 0x454e414cu /* "LANE" */

enum {
    SPOOL_STRIDE_BYTES = 65536, /* stays inside the second-level cache */
    SPOOL_NAME_BYTES = 64,
    SPOOL_TEXT_BYTES = 4096,
};

struct spool_header {
    char magic[8];
    uint32_t version;
    uint32_t page_bytes;
    int32_t pid;
    int32_t parent_pid;
    uint64_t start_stamp;    /* clock of the processor ... */
    uint64_t start_clock_ns; /* ... and CLOCK_MONOTONIC at the same moment */
    uint64_t n_strides;      /* handed out so far, this one included; atomic */
    uint64_t stop_stamp;     /* recording stopped here because of stop_errno; 0: it did not */
    int32_t stop_errno;
    uint32_t fork_lane;  /* home of the lane that forked, in parent_spool */
    uint64_t fork_stamp; /* when; 0: the process did not begin with a fork */
    char
        parent_spool[SPOOL_NAME_BYTES]; /* file name in the same folder; history up to fork_stamp */
    char boot_id[40];                   /* clocks compare only within one boot */
    uint32_t n_command_bytes;
    uint32_t reserved;
    char allocator[SPOOL_TEXT_BYTES]; /* library whose malloc did the work */
    char command[SPOOL_TEXT_BYTES];   /* arguments, each ended by NUL, perhaps cut */
};
_Static_assert(sizeof(struct spool_header) <= SPOOL_STRIDE_BYTES, "one stride holds it");

/* place = address in the low 48 bits, code, align_log2
 * when  = size in the low 32 bits, stamp less the last clock of the lane above */
struct record {
    uint64_t place;
    uint64_t when;
};
_Static_assert(sizeof(struct record) == 16, "four records to a cache line");

enum {
    RECORD_CODE_SHIFT = 48,
    RECORD_ALIGN_SHIFT = 56,
    RECORD_ELAPSED_SHIFT = 32,
};
#define RECORD_ADDRESS_MASK ((UINT64_C(1) << RECORD_CODE_SHIFT) - 1)

/* A code is op | api << 3 of trace.h; op 7 is none of those and marks: */
enum {
    RECORD_CLOCK = 7 | 0 << 3,         /* when = a whole stamp, the new clock of the lane */
    RECORD_SIZE = 7 | 1 << 3,          /* when = a whole size, for the next record */
    RECORD_REALLOC_BEGIN = 7 | 2 << 3, /* address is given up unless the realloc fails */
};

enum {
    LANE_HEADER_BYTES = 64,
    LANE_RECORDS = (SPOOL_STRIDE_BYTES - LANE_HEADER_BYTES) / 16,
};

struct lane {
    uint32_t magic;
    uint32_t home; /* number of the stride that is mapped by the threads */
    /* sequence << 32 | number of records.  One word, so that a process killed
     * at any instruction leaves a buffer that is whole. */
    uint64_t state;
    uint64_t first_stamp; /* clock before the first record */
    uint64_t base_stamp;  /* clock before the next record */
    uint64_t exit_stamp;  /* when its last thread ended; 0: it has not */
    struct lane *next;    /* among the lanes of ended threads; of the process only */
    uint64_t clock_ns;    /* CLOCK_MONOTONIC at first_stamp */
    int32_t thread_id;    /* kernel's number of its last thread */
    uint32_t reserved;
    struct record records[LANE_RECORDS];
};
_Static_assert(sizeof(struct lane) == SPOOL_STRIDE_BYTES, "one stride holds it");
_Static_assert(__builtin_offsetof(struct lane, records) == LANE_HEADER_BYTES, "fixed header");

#endif
