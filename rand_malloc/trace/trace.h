/* trace.h - read and write allocation traces.
 *
 * A trace is what one process did to its heap: allocations, reallocations and
 * frees of every thread in one global order, with slots instead of addresses
 * and a coarse clock.  The file is a header followed by independent,
 * checksummed, zstd-compressed blocks (see format.h),
 * so a file that was cut off is readable up to its last whole block.
 *
 * Guarantees of the reader: it never allocates from the C heap, never crashes
 * on hostile input, and every event it returns is consistent (the writer refuses
 * what breaks one of these rules):
 *
 *   Slots    An allocation names a free slot, a free or realloc a live one.  Slots
 *            are numbered densely in the order of first use.  A freed slot belongs
 *            to the thread that freed it and only that thread allocates into it
 *            again.  So a replay with free-running threads needs one hand-over per
 *            block that changes hands (wait until the block of the slot's current
 *            generation exists) and none for the slot itself.
 *   Threads  Thread 0 runs from the start and has neither a start nor an exit event.
 *            Any other thread acts only between its TRACE_THREAD_START and its
 *            TRACE_THREAD_EXIT.  A thread number is a lane: once its thread has
 *            ended a new thread may start in it and inherits its free slots, so
 *            n_threads is the greatest number of threads alive at once, not the
 *            number of threads ever started.
 *   Touch    Only an allocation or realloc has one, and no more pages than the block
 *            are untouched.
 *   Times    Never go back.  On disk they are whole multiples of
 *            TRACE_TIME_QUANTUM_NS, rounded down.
 */
#ifndef MALLOC_TUNER_TRACE_H
#define MALLOC_TUNER_TRACE_H

#include <stddef.h>
#include <stdint.h>

/* 2 is written where start and end of the process are not known, 1 where no event has a
 * touch either: they lack just that. */
#define TRACE_FORMAT_VERSION 3u

/* Resolution of time_ns in a file: coarse enough to cost almost nothing, fine
 * enough for the decay settings of allocators, which count milliseconds. */
#define TRACE_TIME_QUANTUM_NS 10000u

/* Limits that keep every table small and every product inside 64 bits. */
#define TRACE_MAX_THREADS    65536u
#define TRACE_MAX_SLOTS      (1u << 30)
#define TRACE_MAX_SIZE       (UINT64_C(1) << 47)
#define TRACE_MAX_ALIGN_LOG2 40u
#define TRACE_MAX_LIFE_NS    (UINT64_C(1) << 62)

/* What the event does to the heap. */
enum trace_op {
    TRACE_MALLOC = 0,  /* new block in a free slot */
    TRACE_CALLOC = 1,  /* new zeroed block in a free slot */
    TRACE_ALIGNED = 2, /* new block with 1 << align_log2 alignment */
    TRACE_REALLOC = 3, /* the live block of the slot changes its size */
    TRACE_FREE = 4,    /* the live block of the slot ends */
    TRACE_THREAD_START = 5,
    TRACE_THREAD_EXIT = 6,
    TRACE_OP_COUNT = 7
};

/* Which entry point the program called; information only, replay follows op:
 * realloc(NULL, n) is a TRACE_MALLOC and realloc(p, 0) a TRACE_FREE, both with
 * TRACE_API_REALLOC; an aligned new is a TRACE_ALIGNED with TRACE_API_NEW. */
enum trace_api {
    TRACE_API_MALLOC = 0,
    TRACE_API_CALLOC,
    TRACE_API_REALLOC,
    TRACE_API_REALLOCARRAY,
    TRACE_API_MEMALIGN,
    TRACE_API_ALIGNED_ALLOC,
    TRACE_API_POSIX_MEMALIGN,
    TRACE_API_VALLOC,
    TRACE_API_PVALLOC,
    TRACE_API_FREE,
    TRACE_API_FREE_SIZED,
    TRACE_API_NEW,
    TRACE_API_NEW_ARRAY,
    TRACE_API_DELETE,
    TRACE_API_DELETE_ARRAY,
    TRACE_API_DELETE_SIZED,
    TRACE_API_THREAD,
    TRACE_API_COUNT
};

/* One event, 40 bytes; Python maps the same layout as a numpy dtype. */
struct trace_event {
    uint64_t time_ns;   /* since time 0 of the trace, see struct trace_life; never decreases */
    uint64_t size;      /* requested bytes of an allocation or realloc, else 0 */
    uint32_t slot;      /* below n_slots; 0 for thread events */
    uint32_t thread;    /* below n_threads: the calling one */
    uint32_t owner;     /* below n_threads: the one that last allocated or reallocated the block
                         * before this event (== thread for an allocation or a thread
                         * event); a free with owner != thread is a cross-thread free.
                         * Derived, not stored: trace_write ignores it */
    uint8_t op;         /* enum trace_op */
    uint8_t api;        /* enum trace_api */
    uint8_t align_log2; /* TRACE_ALIGNED only, else 0 */
    uint8_t reserved;   /* 0 */
    uint32_t touch;     /* allocation or realloc: 0 if not known, else 1 more than the pages (of
                         * the recorded machine) of the block that the program did not touch
                         * before the block's next realloc or its end; see trace_untouched */
    uint32_t reserved2; /* 0 */
};
_Static_assert(sizeof(struct trace_event) == 40, "Python maps these 40 bytes");

enum {
    /* Of smaller blocks nobody looks what was touched.  Eight pages: with fewer, what lies beside
     * the whole pages is a good part of a block. */
    TRACE_TOUCH_LEAST_BYTES = 32768
};

/* Bytes of the block that were never touched, 0 where it is not known. */
static inline uint64_t trace_untouched(const struct trace_event *event, uint32_t page_bytes) {
    return event->touch > 1 ? (uint64_t)(event->touch - 1) * page_bytes : 0;
}

/* When the process lived: means over time are over its life.  Time 0 is the exec of the process,
 * or where its start is not known the start of the recording. */
struct trace_life {
    uint64_t start_ns; /* exec, or the fork of a process that began with one */
    uint64_t end_ns;   /* not before the last event */
    uint8_t has_start; /* 0: start_ns is not known */
    uint8_t has_end;   /* 0: end_ns is not known */
    uint8_t reserved[6];
};
_Static_assert(sizeof(struct trace_life) == 24, "Python maps these 24 bytes");

/* Totals; exact when the file was closed properly, else what was found so far. */
struct trace_info {
    uint32_t version;
    uint32_t n_threads;
    uint32_t n_slots;    /* size a table of slots must have */
    uint32_t page_bytes; /* of the recorded machine */
    uint64_t n_events;
    uint64_t duration_ns; /* time of the last event */
    uint64_t peak_live_bytes;
    uint64_t peak_live_blocks;
    uint8_t is_complete; /* 0: the file was cut off; counts cover what is readable */
    uint8_t reserved[7];
    struct trace_life life;
};
_Static_assert(sizeof(struct trace_info) == 80, "Python maps these 80 bytes");

enum trace_status {
    TRACE_OK = 0,
    TRACE_END = 1,
    TRACE_ERROR_OPEN = 2,    /* cannot open or read; see errno */
    TRACE_ERROR_FORMAT = 3,  /* not a trace, or corrupt */
    TRACE_ERROR_VERSION = 4, /* written by a newer version */
    TRACE_ERROR_MEMORY = 5,
    TRACE_ERROR_WRITE = 6 /* disk full or similar; see errno */
};

struct trace_reader;

/* Every exported function carries this mark. */
#define TRACE_EXPORT __attribute__((visibility("default")))

/* Opens a trace.  On failure *reader is NULL and message (message_bytes long)
 * says what is wrong and where, as a sentence. */
TRACE_EXPORT int trace_open(const char *path, struct trace_reader **reader, char *message,
                            size_t message_bytes);

TRACE_EXPORT void trace_get_info(const struct trace_reader *reader, struct trace_info *info);

/* The metadata of the recording as JSON text (argv, versions, machine); lives
 * as long as the reader. */
TRACE_EXPORT const char *trace_metadata(const struct trace_reader *reader);

/* Fills up to capacity events, *n_read is their number.  TRACE_OK with at least
 * one event, TRACE_END when none is left, an error otherwise.  A truncated file
 * ends with TRACE_END and is_complete == 0. */
TRACE_EXPORT int trace_read(struct trace_reader *reader, struct trace_event *events,
                            size_t capacity, size_t *n_read);

/* Text for the last error of this reader: what and at which byte. */
TRACE_EXPORT const char *trace_message(const struct trace_reader *reader);

TRACE_EXPORT void trace_close(struct trace_reader *reader);

/* Writing: events in global order; the writer checks what the reader promises. */
struct trace_writer;

TRACE_EXPORT int trace_create(const char *path, const char *metadata_json, uint32_t page_bytes,
                              struct trace_writer **writer, char *message, size_t message_bytes);
TRACE_EXPORT int trace_write(struct trace_writer *writer, const struct trace_event *events,
                             size_t n_events);
TRACE_EXPORT const char *trace_writer_message(const struct trace_writer *writer);

/* Replaces the metadata of a trace being written, for counts known only at its
 * end.  The new text must not be longer than the first; blanks fill it up. */
TRACE_EXPORT int trace_replace_metadata(struct trace_writer *writer, const char *metadata_json);

/* Sets when the process lived; any time before trace_finish, which checks it. */
TRACE_EXPORT void trace_set_life(struct trace_writer *writer, const struct trace_life *life);

/* Writes totals into the header and closes; TRACE_OK or an error, as for a life that ends before
 * its start or before the last event. */
TRACE_EXPORT int trace_finish(struct trace_writer *writer);

/* Closes and removes an unfinished file. */
TRACE_EXPORT void trace_abandon(struct trace_writer *writer);

#endif
