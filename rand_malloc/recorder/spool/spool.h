/* spool.h - the raw recording of one process, written by librecorder.so and
 * turned into a trace by build_trace.
 *
 *   file   = stride*            every stride is SPOOL_STRIDE_BYTES long
 *   stride 0                    struct spool_header
 *   other strides               struct lane: either the home of a lane (the buffer a
 *                               thread writes into, mapped shared) or a full buffer
 *                               that was archived; a home has home == its own number;
 *                               or struct touch_stride: what was touched of large blocks
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

#include "trace.h" /* enum trace_op, enum trace_api */

#include <stdint.h>

#define SPOOL_MAGIC       "MTSPOOL\n"
#define SPOOL_VERSION     5u
#define SPOOL_LANE_MAGIC  0x454e414cu /* "LANE" */
#define SPOOL_TOUCH_MAGIC 0x48435554u /* "TUCH" */

enum {
    SPOOL_STRIDE_BYTES = 65536, /* stays inside the second-level cache */
    SPOOL_NAME_BYTES = 64,
    SPOOL_TEXT_BYTES = 4096,
    SPOOL_TITLE_BYTES = 256,
};

/* What all processes of a recording share; the file SPOOL_CONTROL in their folder, which a
 * recording of one process without a limit or an end of its own does not have. */
#define SPOOL_CONTROL "control"

struct spool_control {
    uint64_t most_strides; /* of all spools together, in the window; and as many before it */
    uint64_t n_strides;    /* atomic */
    uint32_t is_over;      /* atomic; 1: nothing more is recorded */
    uint32_t reserved;
};

struct spool_header {
    char magic[8];
    uint32_t version;
    uint32_t page_bytes;
    int32_t pid;
    int32_t parent_pid;
    uint64_t start_stamp;    /* clock of the processor ... */
    uint64_t start_clock_ns; /* ... and CLOCK_MONOTONIC at the same moment */
    uint64_t life_ns;        /* CLOCK_MONOTONIC when the process began to run this program; 0: not
                              * known; of a process that began with a fork see fork_stamp */
    uint64_t born_ticks;     /* when the kernel made the process, in its ticks since the boot; with
                              * the pid one process's alone */
    uint64_t end_stamp;      /* when it exited or became another program; 0: it did neither, or
                              * was killed */
    uint64_t n_strides;      /* handed out so far, this one included; atomic */
    uint64_t stop_stamp;     /* recording stopped here because of stop_errno; 0: it did not */
    int32_t stop_errno;      /* 0: the recording was over, see struct spool_control */
    uint32_t fork_lane;      /* home of the lane that forked, in parent_spool */
    uint64_t fork_stamp;     /* when; 0: the process did not begin with a fork */
    char
        parent_spool[SPOOL_NAME_BYTES]; /* file name in the same folder; history up to fork_stamp */
    char boot_id[40];                   /* clocks compare only within one boot */
    uint32_t n_command_bytes;
    uint32_t n_title_bytes;
    char allocator[SPOOL_TEXT_BYTES]; /* library whose malloc did the work */
    char command[SPOOL_TEXT_BYTES];   /* arguments, each ended by NUL, perhaps cut */
    char title[SPOOL_TITLE_BYTES];    /* the same as last seen: services write their role there */
};
_Static_assert(sizeof(struct spool_header) <= SPOOL_STRIDE_BYTES, "one stride holds it");

/* A record is one word, or two when the one is too small.
 *
 *   short  bits  0..3   enum record_short
 *          bits  4..17  size
 *          bits 18..33  stamp less that of the record before
 *          bits 34..63  address less that of the record before, in units of 8, signed
 *   long   bits  0..3   RECORD_LONG
 *          bits  4..11  op | api << 3 of trace.h, or a mark below
 *          bits 16..63  address
 *          second word, bits 0..31 size, 32..37 align_log2, 38..63 stamp difference;
 *          of a mark: its value
 *
 * So most records take 8 bytes, which matters: what recording costs is mainly
 * what the kernel needs to take these bytes.
 */
enum {
    RECORD_LONG = 15,
    SHORT_SIZE_SHIFT = 4,
    SHORT_SIZE_BITS = 14,
    SHORT_ELAPSED_SHIFT = 18,
    SHORT_ELAPSED_BITS = 16,
    SHORT_ADDRESS_SHIFT = 34,
    ADDRESS_UNIT_BITS = 3,
    LONG_CODE_SHIFT = 4,
    LONG_ADDRESS_SHIFT = 16,
    LONG_SIZE_BITS = 32,
    LONG_ALIGN_SHIFT = 32,
    LONG_ALIGN_BITS = 6,
    LONG_ELAPSED_SHIFT = 38,
    LONG_ELAPSED_BITS = 26,
};

/* Marks: op 7 is none of trace.h. */
enum {
    RECORD_CLOCK = 7 | 0 << 3,         /* value: a whole stamp, the clock from here on */
    RECORD_SIZE = 7 | 1 << 3,          /* value: a whole size, for the next record */
    RECORD_TOUCH = 7 | 3 << 3,         /* value: where the answer is what was touched of the block
                                        * that the next record allocates */
    RECORD_REALLOC_BEGIN = 7 | 2 << 3, /* no mark but a record: the address is given up
                                        * unless the realloc fails */
};

/* Short codes: the calls worth one. */
enum record_short {
    SHORT_MALLOC,
    SHORT_CALLOC,
    SHORT_FREE,
    SHORT_FREE_SIZED,
    SHORT_NEW,
    SHORT_NEW_ARRAY,
    SHORT_DELETE,
    SHORT_DELETE_ARRAY,
    SHORT_DELETE_SIZED,
    SHORT_REALLOC_BEGIN,
    SHORT_REALLOC,
    SHORT_REALLOC_OF_NULL,
    SHORT_REALLOC_TO_ZERO,
    SHORT_REALLOCARRAY,
    SHORT_REALLOCARRAY_OF_NULL,
    N_SHORT
};
_Static_assert((int)N_SHORT <= (int)RECORD_LONG, "the last code marks a long record");

#define RECORD_CODE(op, api) ((uint8_t)((unsigned)(op) | (unsigned)(api) << 3))

static const uint8_t record_codes[N_SHORT] = {
    [SHORT_MALLOC] = RECORD_CODE(TRACE_MALLOC, TRACE_API_MALLOC),
    [SHORT_CALLOC] = RECORD_CODE(TRACE_CALLOC, TRACE_API_CALLOC),
    [SHORT_FREE] = RECORD_CODE(TRACE_FREE, TRACE_API_FREE),
    [SHORT_FREE_SIZED] = RECORD_CODE(TRACE_FREE, TRACE_API_FREE_SIZED),
    [SHORT_NEW] = RECORD_CODE(TRACE_MALLOC, TRACE_API_NEW),
    [SHORT_NEW_ARRAY] = RECORD_CODE(TRACE_MALLOC, TRACE_API_NEW_ARRAY),
    [SHORT_DELETE] = RECORD_CODE(TRACE_FREE, TRACE_API_DELETE),
    [SHORT_DELETE_ARRAY] = RECORD_CODE(TRACE_FREE, TRACE_API_DELETE_ARRAY),
    [SHORT_DELETE_SIZED] = RECORD_CODE(TRACE_FREE, TRACE_API_DELETE_SIZED),
    [SHORT_REALLOC_BEGIN] = RECORD_REALLOC_BEGIN,
    [SHORT_REALLOC] = RECORD_CODE(TRACE_REALLOC, TRACE_API_REALLOC),
    [SHORT_REALLOC_OF_NULL] = RECORD_CODE(TRACE_MALLOC, TRACE_API_REALLOC),
    [SHORT_REALLOC_TO_ZERO] = RECORD_CODE(TRACE_FREE, TRACE_API_REALLOC),
    [SHORT_REALLOCARRAY] = RECORD_CODE(TRACE_REALLOC, TRACE_API_REALLOCARRAY),
    [SHORT_REALLOCARRAY_OF_NULL] = RECORD_CODE(TRACE_MALLOC, TRACE_API_REALLOCARRAY),
};

enum {
    LANE_HEADER_BYTES = 128,
    LANE_WORDS = (SPOOL_STRIDE_BYTES - LANE_HEADER_BYTES) / 8,
};

struct lane {
    uint32_t magic;
    uint32_t home; /* number of the stride that is mapped by the threads */
    /* sequence << 32 | number of words.  One word, so that a process killed
     * at any instruction leaves a buffer that is whole. */
    uint64_t state;
    uint64_t first_stamp;  /* clock before the first record */
    uint64_t last_stamp;   /* of the last record; of the process only, as the next two */
    uint64_t last_address; /* of the last record */
    uint64_t exit_stamp;   /* when its last thread ended; 0: it has not */
    struct lane *next;     /* among the lanes of ended threads */
    uint64_t clock_ns;     /* CLOCK_MONOTONIC at first_stamp */
    int32_t thread_id;     /* kernel's number of its last thread */
    uint32_t reserved[15];
    uint64_t words[LANE_WORDS];
};
_Static_assert(sizeof(struct lane) == SPOOL_STRIDE_BYTES, "one stride holds it");
_Static_assert(__builtin_offsetof(struct lane, words) == LANE_HEADER_BYTES, "fixed header");

enum {
    TOUCHES_PER_STRIDE = (SPOOL_STRIDE_BYTES - LANE_HEADER_BYTES) / 4,
};

/* Answers index * TOUCHES_PER_STRIDE and following; each is written when its block ends. */
struct touch_stride {
    uint32_t magic;
    uint32_t index;
    uint32_t reserved[30];
    uint32_t touches[TOUCHES_PER_STRIDE]; /* as in struct trace_event; 0: not known */
};
_Static_assert(sizeof(struct touch_stride) == SPOOL_STRIDE_BYTES, "one stride holds them");

#endif
