/* decoder.h - the events of one unpacked block, column by column.
 *
 * Works on hostile columns: every byte is read through a bounded cursor.  It
 * knows the bytes only; the rules between events are the ledger's.
 */
#ifndef MALLOC_TUNER_TRACE_DECODER_H
#define MALLOC_TUNER_TRACE_DECODER_H

#include "format.h"
#include "trace.h"

#include <stddef.h>

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

/* The previous slot of a lane counts only within one block. */
struct lane {
    uint32_t block;
    uint32_t slot;
};

struct decoder {
    struct lane *lanes;    /* TRACE_MAX_THREADS entries */
    uint32_t block_number; /* any number, another one for each block, not 0 */
    uint32_t thread;       /* of the next event */
    uint64_t time_quanta;  /* of the next event */
    uint32_t touch;        /* of the next event; 0: not known */
    uint32_t version;      /* of the file, set by what opened the decoder */
    struct cursor columns[N_COLUMNS];
};

/* False when there is no memory. */
int decoder_open(struct decoder *decoder);

/* Begins a block whose columns are `raw`.  This function and the next two return
 * NULL, or what is wrong with the block. */
const char *decoder_begin(struct decoder *decoder, const struct format_block *block,
                          const uint8_t *raw, size_t raw_bytes);

/* The next event, but for its owner. */
const char *decoder_next(struct decoder *decoder, struct trace_event *event);

/* After the last event: is anything left? */
const char *decoder_end(const struct decoder *decoder);

void decoder_close(struct decoder *decoder);

#endif
