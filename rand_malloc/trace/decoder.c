/* decoder.c - see decoder.h. */
#include "decoder.h"

#include "memory.h"

#include <string.h> /* memcpy */

int decoder_open(struct decoder *decoder) {
    *decoder = (struct decoder){0};
    decoder->lanes = memory_map(TRACE_MAX_THREADS * sizeof *decoder->lanes);
    return decoder->lanes != NULL;
}

void decoder_close(struct decoder *decoder) {
    memory_unmap(decoder->lanes, TRACE_MAX_THREADS * sizeof *decoder->lanes);
    *decoder = (struct decoder){0};
}

const char *decoder_begin(struct decoder *decoder, const struct format_block *block,
                          const uint8_t *raw, size_t raw_bytes) {
    uint32_t lengths[N_COLUMNS];
    memcpy(lengths, raw, sizeof lengths);
    const uint8_t *at = raw + sizeof lengths;
    size_t left = raw_bytes - sizeof lengths;
    for (int i = 0; i < N_COLUMNS; i++) {
        if (lengths[i] > left)
            return "a column is longer than its block";
        decoder->columns[i] = (struct cursor){at, at + lengths[i]};
        at += lengths[i];
        left -= lengths[i];
    }
    decoder->thread = block->thread;
    decoder->time_quanta = block->time_quanta;
    decoder->touch = 0;
    return left == 0 ? NULL : "there are bytes behind the last column";
}

/* One varint: seven bits a byte, low bits first, at most 64 bits. */
static int take_varint(struct cursor *cursor, uint64_t *value) {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64 && cursor->at < cursor->end; shift += 7) {
        uint8_t byte = *cursor->at++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return 1;
        }
    }
    return 0;
}

static const char *take_marker(struct decoder *decoder, uint8_t code) {
    uint64_t value;
    if (!take_varint(&decoder->columns[COLUMN_EXTRAS], &value))
        return "a marker has no value";
    if (code == CODE_THREAD) {
        if (value >= TRACE_MAX_THREADS)
            return "a thread number is out of range";
        decoder->thread = (uint32_t)value;
        return NULL;
    }
    if (code == CODE_TOUCH && decoder->version >= 2) {
        if (value == 0 || value > UINT32_MAX || decoder->touch != 0)
            return "a count of untouched pages is out of range, or comes twice";
        decoder->touch = (uint32_t)value;
        return NULL;
    }
    if (code != CODE_ELAPSED)
        return "unknown marker";
    if (value > UINT64_MAX / TRACE_TIME_QUANTUM_NS - decoder->time_quanta)
        return "a time is out of range";
    decoder->time_quanta += value;
    return NULL;
}

static const char *take_slot(struct decoder *decoder, uint32_t *slot) {
    uint64_t zigzag;
    struct lane *lane = &decoder->lanes[decoder->thread];
    if (!take_varint(&decoder->columns[COLUMN_SLOTS], &zigzag))
        return "an event has no slot";
    uint32_t previous = lane->block == decoder->block_number ? lane->slot : 0;
    uint64_t sum = previous + ((zigzag >> 1) ^ (0 - (zigzag & 1)));
    if (sum >= TRACE_MAX_SLOTS)
        return "a slot is out of range";
    *slot = (uint32_t)sum;
    *lane = (struct lane){decoder->block_number, *slot};
    return NULL;
}

static const char *take_fields(struct decoder *decoder, struct trace_event *event) {
    const char *why = NULL;
    if (event->op < TRACE_THREAD_START)
        why = take_slot(decoder, &event->slot);
    if (why == NULL && event->op <= TRACE_REALLOC &&
        !take_varint(&decoder->columns[COLUMN_SIZES], &event->size))
        why = "an event has no size";
    if (why == NULL && event->op == TRACE_ALIGNED) {
        struct cursor *extras = &decoder->columns[COLUMN_EXTRAS];
        if (extras->at == extras->end)
            return "an event has no alignment";
        event->align_log2 = *extras->at++;
    }
    return why;
}

const char *decoder_next(struct decoder *decoder, struct trace_event *event) {
    struct cursor *codes = &decoder->columns[COLUMN_CODES];
    while (codes->at < codes->end) {
        uint8_t code = *codes->at++;
        if ((code & CODE_OP_MASK) == CODE_MARKER) {
            const char *why = take_marker(decoder, code);
            if (why != NULL)
                return why;
            continue;
        }
        *event = (struct trace_event){.op = code & CODE_OP_MASK, .api = code >> CODE_OP_BITS};
        event->thread = decoder->thread;
        event->time_ns = decoder->time_quanta * TRACE_TIME_QUANTUM_NS;
        event->touch = decoder->touch;
        decoder->touch = 0;
        return take_fields(decoder, event);
    }
    return "it holds fewer events than it says";
}

const char *decoder_end(const struct decoder *decoder) {
    for (int i = 0; i < N_COLUMNS; i++)
        if (decoder->columns[i].at != decoder->columns[i].end)
            return "it holds more than its events";
    return NULL;
}
