/* spool_reader.h - the records of a spool in one order.
 *
 * The lanes are merged by stamp with a binary heap.  Within a lane the order of
 * the records always stands, whatever the stamps say.
 */
#ifndef MALLOC_TUNER_RECORDER_SPOOL_READER_H
#define MALLOC_TUNER_RECORDER_SPOOL_READER_H

#include "spool/spool.h"

#include <stdbool.h>
#include <stddef.h>

/* A full or half-full buffer of a lane. */
struct spool_stride {
    uint32_t home;
    uint32_t sequence; /* 1 for the first of its lane */
    uint32_t number;   /* of the stride in the file */
    uint32_t n_words;
};

struct spool_lane {
    const struct spool_stride *strides; /* those left to read, but for the one in work */
    size_t n_strides;
    const uint64_t *words;     /* left to read of the stride in work ... */
    const uint64_t *words_end; /* ... up to here */
    uint32_t home;
    uint64_t clock;        /* stamp of the record before */
    uint64_t address;      /* of the record before */
    uint64_t giant_size;   /* from a mark, for the next record; 0: none */
    uint64_t touch_number; /* likewise */
    uint64_t last_stamp;   /* stamps handed out never go back */
    uint64_t exit_stamp;   /* an exit event to add behind the last record; 0: none */
};

struct spool_event {
    uint64_t stamp;
    uint64_t address; /* 0 for thread events and failed reallocs */
    uint64_t size;
    uint32_t lane; /* index below n_lanes */
    uint8_t code;
    uint8_t align_log2;
    uint32_t touch; /* of an allocation, as in struct trace_event */
};

/* A stride of answers; NULL where the file was cut off. */
struct touch_answers {
    const struct touch_stride *stride;
};

struct spool {
    int fd;
    const uint8_t *bytes; /* the whole file, mapped */
    size_t n_bytes;
    const struct spool_header *header;
    struct spool_stride *strides; /* sorted by lane and sequence */
    size_t n_strides;
    struct touch_answers *touches; /* [n_touches] by their index, NULL where cut off */
    size_t n_touches;
    struct spool_lane *lanes;  /* by home */
    struct spool_event *heads; /* the next event of each lane */
    size_t n_lanes;
    uint32_t *heap; /* lanes that have a head, least stamp on top */
    size_t n_heap;
    bool is_started;      /* the heap is filled */
    uint64_t until_stamp; /* events after it are not handed out */
};

/* Opens a spool; false and a message when it is none. */
bool spool_open(struct spool *spool, const char *path, char *message, size_t message_bytes);

/* Ends the history at this stamp.  Call before the first spool_next. */
void spool_limit(struct spool *spool, uint64_t until_stamp);

/* Fills up to capacity (> 0) events, the next ones; returns how many, 0 at the end. */
size_t spool_read(struct spool *spool, struct spool_event *events, size_t capacity);

/* Nanoseconds per unit of stamp, from the clocks in the spool and, within the
 * same boot, the clock of now; 1.0 when neither is known. */
double spool_ns_per_stamp(const struct spool *spool);

void spool_close(struct spool *spool);

#endif
