/* writer.c - write a trace block by block.
 *
 * The file is valid after every block: until trace_finish the header says that
 * the totals are not final, and a reader then finds them itself.  An event that
 * breaks a rule of trace.h is refused with its number and the rule; the events
 * before it stay written.
 */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_initStaticCCtx: contexts in our own memory */
#include "trace.h"

#include "format.h"
#include "ledger.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h> /* snprintf */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
    MESSAGE_BYTES = 512,
    PATH_MAX_BYTES = 4096,
    /* Level 3 packs 7 % smaller and takes a fifth more time for the whole building of a trace. */
    COMPRESSION_LEVEL = 1
};

static const size_t column_capacity[N_COLUMNS] = {
    [COLUMN_CODES] = (size_t)FORMAT_BLOCK_EVENTS * CODES_PER_EVENT,
    [COLUMN_SLOTS] = (size_t)FORMAT_BLOCK_EVENTS * SLOT_MAX_BYTES,
    [COLUMN_SIZES] = (size_t)FORMAT_BLOCK_EVENTS * SIZE_MAX_BYTES,
    [COLUMN_EXTRAS] = (size_t)FORMAT_BLOCK_EVENTS * EXTRAS_MAX_BYTES,
};

/* The previous slot of a lane counts only within one block. */
struct lane {
    uint32_t block;
    uint32_t slot;
};

struct trace_writer {
    int fd;
    int status;    /* TRACE_OK, or the error that ended writing */
    int has_touch; /* of any event so far */
    struct format_header header;
    struct format_block block; /* the one being filled; n_events of it so far */
    uint32_t block_number;     /* 1 for the first */
    uint32_t thread;           /* of the last event */
    uint64_t time_quanta;      /* of the last event */
    struct trace_life life;
    struct ledger ledger;
    struct lane *lanes;          /* TRACE_MAX_THREADS entries */
    uint8_t *columns[N_COLUMNS]; /* column_capacity each */
    uint8_t *ends[N_COLUMNS];    /* where the next byte goes */
    uint8_t *raw;                /* FORMAT_RAW_MAX_BYTES */
    uint8_t *packed;             /* packed_capacity */
    size_t packed_capacity;
    void *workspace; /* of the zstd context */
    size_t workspace_bytes;
    ZSTD_CCtx *packer; /* inside workspace */
    char path[PATH_MAX_BYTES];
    char message[MESSAGE_BYTES];
};

__attribute__((format(printf, 3, 4))) static int fail(struct trace_writer *writer, int status,
                                                      const char *format, ...) {
    int n = snprintf(writer->message, sizeof writer->message, "%.300s: ", writer->path);
    va_list arguments;
    va_start(arguments, format);
    if (n > 0 && (size_t)n < sizeof writer->message)
        vsnprintf(writer->message + n, sizeof writer->message - (size_t)n, format, arguments);
    va_end(arguments);
    writer->status = status;
    return status;
}

static int write_all(struct trace_writer *writer, const void *bytes, size_t n_bytes) {
    const char *from = bytes;
    while (n_bytes > 0) {
        ssize_t n = write(writer->fd, from, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(writer, TRACE_ERROR_WRITE, "cannot write: %s", strerror(errno));
        from += n;
        n_bytes -= (size_t)n;
    }
    return TRACE_OK;
}

/* ---- blocks ---- */

static void begin_block(struct trace_writer *writer) {
    memcpy(writer->ends, writer->columns, sizeof writer->ends);
    writer->block_number++;
    writer->block = (struct format_block){
        .magic = TRACE_BLOCK_MAGIC, .time_quanta = writer->time_quanta, .thread = writer->thread};
}

/* Lays the columns behind their lengths; returns the bytes of all. */
static size_t join_columns(struct trace_writer *writer) {
    uint32_t lengths[N_COLUMNS];
    size_t n = sizeof lengths;
    for (int i = 0; i < N_COLUMNS; i++) {
        lengths[i] = (uint32_t)(writer->ends[i] - writer->columns[i]);
        memcpy(writer->raw + n, writer->columns[i], lengths[i]);
        n += lengths[i];
    }
    memcpy(writer->raw, lengths, sizeof lengths);
    return n;
}

static int end_block(struct trace_writer *writer) {
    struct format_block *block = &writer->block;
    if (block->n_events == 0)
        return TRACE_OK;
    size_t raw_bytes = join_columns(writer);
    size_t n = ZSTD_compressCCtx(writer->packer, writer->packed, writer->packed_capacity,
                                 writer->raw, raw_bytes, COMPRESSION_LEVEL);
    if (ZSTD_isError(n))
        return fail(writer, TRACE_ERROR_MEMORY, "cannot pack a block: %s", ZSTD_getErrorName(n));
    block->raw_bytes = (uint32_t)raw_bytes;
    block->packed_bytes = (uint32_t)n;
    uint64_t sum = format_checksum(FORMAT_CHECKSUM_START, block, sizeof *block - 8);
    block->checksum = format_checksum(sum, writer->packed, n);
    if (write_all(writer, block, sizeof *block) != TRACE_OK ||
        write_all(writer, writer->packed, n) != TRACE_OK)
        return writer->status;
    writer->header.blocks_bytes += sizeof *block + n;
    begin_block(writer);
    return TRACE_OK;
}

/* ---- events ---- */

static uint8_t *put_byte(uint8_t *end, unsigned byte) {
    *end = (uint8_t)byte;
    return end + 1;
}

static uint8_t *put_varint(uint8_t *end, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        end = put_byte(end, (unsigned)(value & 0x7f) | 0x80);
    return put_byte(end, (unsigned)value);
}

static void put_slot(struct trace_writer *writer, uint32_t slot) {
    struct lane *lane = &writer->lanes[writer->thread];
    uint32_t previous = lane->block == writer->block_number ? lane->slot : 0;
    int64_t difference = (int64_t)slot - previous;
    *lane = (struct lane){writer->block_number, slot};
    writer->ends[COLUMN_SLOTS] = put_varint(
        writer->ends[COLUMN_SLOTS], (uint64_t)difference << 1 ^ (uint64_t)(difference >> 63));
}

static void put_marker(struct trace_writer *writer, unsigned code, uint64_t value) {
    writer->ends[COLUMN_CODES] = put_byte(writer->ends[COLUMN_CODES], code);
    writer->ends[COLUMN_EXTRAS] = put_varint(writer->ends[COLUMN_EXTRAS], value);
}

static void put_event(struct trace_writer *writer, const struct trace_event *event,
                      uint64_t time_quanta) {
    unsigned op = event->op;
    if (time_quanta != writer->time_quanta) {
        put_marker(writer, CODE_ELAPSED, time_quanta - writer->time_quanta);
        writer->time_quanta = time_quanta;
    }
    if (event->thread != writer->thread) {
        put_marker(writer, CODE_THREAD, event->thread);
        writer->thread = event->thread;
    }
    if (event->touch != 0) {
        put_marker(writer, CODE_TOUCH, event->touch);
        writer->has_touch = 1;
    }
    writer->ends[COLUMN_CODES] =
        put_byte(writer->ends[COLUMN_CODES], op | (unsigned)event->api << CODE_OP_BITS);
    if (op < TRACE_THREAD_START)
        put_slot(writer, event->slot);
    if (op <= TRACE_REALLOC)
        writer->ends[COLUMN_SIZES] = put_varint(writer->ends[COLUMN_SIZES], event->size);
    if (op == TRACE_ALIGNED)
        writer->ends[COLUMN_EXTRAS] = put_byte(writer->ends[COLUMN_EXTRAS], event->align_log2);
    writer->block.n_events++;
}

int trace_write(struct trace_writer *writer, const struct trace_event *events, size_t n_events) {
    for (size_t i = 0; i < n_events && writer->status == TRACE_OK; i++) {
        struct trace_event event = events[i];
        uint64_t time_quanta = event.time_ns / TRACE_TIME_QUANTUM_NS;
        event.time_ns = time_quanta * TRACE_TIME_QUANTUM_NS;
        const char *why = ledger_apply(&writer->ledger, &event);
        if (why != NULL)
            return fail(writer, TRACE_ERROR_FORMAT, "event %" PRIu64 ": %s",
                        writer->ledger.n_events, why);
        put_event(writer, &event, time_quanta);
        if (writer->block.n_events == FORMAT_BLOCK_EVENTS)
            end_block(writer);
    }
    return writer->status;
}

const char *trace_writer_message(const struct trace_writer *writer) {
    return writer->message;
}

/* ---- opening and closing ---- */

static int allocate_buffers(struct trace_writer *writer) {
    int is_good = ledger_open(&writer->ledger);
    for (int i = 0; i < N_COLUMNS; i++) {
        writer->columns[i] = memory_map(column_capacity[i]);
        is_good &= writer->columns[i] != NULL;
    }
    writer->packed_capacity = ZSTD_COMPRESSBOUND(FORMAT_RAW_MAX_BYTES);
    writer->workspace_bytes = ZSTD_estimateCCtxSize(COMPRESSION_LEVEL);
    writer->lanes = memory_map(TRACE_MAX_THREADS * sizeof *writer->lanes);
    writer->raw = memory_map(FORMAT_RAW_MAX_BYTES);
    writer->packed = memory_map(writer->packed_capacity);
    writer->workspace = memory_map(writer->workspace_bytes);
    is_good &= writer->lanes != NULL && writer->raw != NULL && writer->packed != NULL &&
               writer->workspace != NULL;
    if (is_good)
        writer->packer = ZSTD_initStaticCCtx(writer->workspace, writer->workspace_bytes);
    if (writer->packer == NULL)
        return fail(writer, TRACE_ERROR_MEMORY, "no memory for the buffers");
    return TRACE_OK;
}

static void seal_header(struct format_header *header) {
    header->checksum = format_checksum(FORMAT_CHECKSUM_START, header, sizeof *header - 8);
}

static int write_start(struct trace_writer *writer, const char *metadata_json,
                       uint32_t page_bytes) {
    struct format_header *header = &writer->header;
    size_t metadata_bytes = strlen(metadata_json);
    if (metadata_bytes > FORMAT_METADATA_MAX_BYTES)
        return fail(writer, TRACE_ERROR_FORMAT, "the metadata is longer than %d bytes",
                    FORMAT_METADATA_MAX_BYTES);
    memcpy(header->magic, TRACE_MAGIC, TRACE_MAGIC_BYTES);
    header->version = TRACE_FORMAT_VERSION;
    header->header_bytes = sizeof *header;
    header->page_bytes = page_bytes;
    header->metadata_bytes = metadata_bytes;
    header->time_quantum_ns = TRACE_TIME_QUANTUM_NS;
    seal_header(header);
    uint64_t sum = format_checksum(FORMAT_CHECKSUM_START, metadata_json, metadata_bytes);
    if (write_all(writer, header, sizeof *header) != TRACE_OK ||
        write_all(writer, metadata_json, metadata_bytes) != TRACE_OK)
        return writer->status;
    return write_all(writer, &sum, sizeof sum);
}

static void close_writer(struct trace_writer *writer) {
    if (writer->fd >= 0)
        close(writer->fd);
    ledger_close(&writer->ledger);
    for (int i = 0; i < N_COLUMNS; i++)
        memory_unmap(writer->columns[i], column_capacity[i]);
    memory_unmap(writer->lanes, TRACE_MAX_THREADS * sizeof *writer->lanes);
    memory_unmap(writer->raw, FORMAT_RAW_MAX_BYTES);
    memory_unmap(writer->packed, writer->packed_capacity);
    memory_unmap(writer->workspace, writer->workspace_bytes);
    memory_unmap(writer, sizeof *writer);
}

static int open_writer(struct trace_writer *writer, const char *metadata_json,
                       uint32_t page_bytes) {
    writer->fd = open(writer->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer->fd < 0)
        return fail(writer, TRACE_ERROR_WRITE, "cannot create the trace: %s", strerror(errno));
    if (allocate_buffers(writer) != TRACE_OK)
        return writer->status;
    writer->ledger.page_bytes = page_bytes;
    begin_block(writer);
    return write_start(writer, metadata_json, page_bytes);
}

int trace_create(const char *path, const char *metadata_json, uint32_t page_bytes,
                 struct trace_writer **writer, char *message, size_t message_bytes) {
    *writer = NULL;
    struct trace_writer *new_writer = memory_map(sizeof *new_writer);
    if (new_writer == NULL || strlen(path) >= sizeof new_writer->path) {
        memory_unmap(new_writer, sizeof *new_writer);
        snprintf(message, message_bytes, "%.300s: no memory, or the name is too long", path);
        return TRACE_ERROR_MEMORY;
    }
    memcpy(new_writer->path, path, strlen(path) + 1);
    int status = open_writer(new_writer, metadata_json, page_bytes);
    if (status != TRACE_OK) {
        snprintf(message, message_bytes, "%s", new_writer->message);
        trace_abandon(new_writer);
        return status;
    }
    *writer = new_writer;
    return TRACE_OK;
}

static int write_at(struct trace_writer *writer, const void *bytes, size_t n_bytes, off_t offset) {
    ssize_t n = pwrite(writer->fd, bytes, n_bytes, offset);
    if (n == (ssize_t)n_bytes)
        return TRACE_OK;
    return fail(writer, TRACE_ERROR_WRITE, "cannot write: %s", strerror(n < 0 ? errno : ENOSPC));
}

int trace_replace_metadata(struct trace_writer *writer, const char *metadata_json) {
    size_t room_bytes = writer->header.metadata_bytes;
    size_t n_bytes = strlen(metadata_json);
    off_t start = sizeof writer->header;
    if (writer->status != TRACE_OK)
        return writer->status;
    if (n_bytes > room_bytes)
        return fail(writer, TRACE_ERROR_FORMAT, "the new metadata is longer than the first");
    char *text = memory_map(room_bytes + 1);
    if (text == NULL)
        return fail(writer, TRACE_ERROR_MEMORY, "no memory for the metadata");
    memset(text, ' ', room_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        text[i] = metadata_json[i];
    uint64_t sum = format_checksum(FORMAT_CHECKSUM_START, text, room_bytes);
    int status = write_at(writer, text, room_bytes, start);
    if (status == TRACE_OK)
        status = write_at(writer, &sum, sizeof sum, start + (off_t)room_bytes);
    memory_unmap(text, room_bytes + 1);
    return status;
}

void trace_set_life(struct trace_writer *writer, const struct trace_life *life) {
    writer->life = *life;
}

static int check_life(struct trace_writer *writer) {
    const struct trace_life *life = &writer->life;
    if (life->has_end && life->end_ns < writer->ledger.time_ns)
        return fail(writer, TRACE_ERROR_FORMAT, "the process ends before its last event");
    uint64_t end_ns = life->has_end ? life->end_ns : writer->ledger.time_ns;
    if (life->has_start && life->start_ns > end_ns)
        return fail(writer, TRACE_ERROR_FORMAT, "the process ends before it starts");
    return TRACE_OK;
}

/* The oldest version that holds all that is known, so that older readers can read it. */
static uint32_t needed_version(const struct trace_writer *writer) {
    if (writer->life.has_start || writer->life.has_end)
        return 3;
    return writer->has_touch ? 2 : 1;
}

static void set_life(struct format_header *header, const struct trace_life *life) {
    if (life->has_start) {
        header->flags |= FORMAT_KNOWS_START;
        header->start_ns = life->start_ns;
    }
    if (life->has_end) {
        header->flags |= FORMAT_KNOWS_END;
        header->end_ns = life->end_ns;
    }
}

static void set_totals(struct format_header *header, const struct ledger *ledger) {
    header->flags |= FORMAT_IS_COMPLETE;
    header->n_events = ledger->n_events;
    header->duration_ns = ledger->time_ns;
    header->peak_live_bytes = ledger->peak_live_bytes;
    header->peak_live_blocks = ledger->peak_live_blocks;
    header->n_threads = ledger->n_threads;
    header->n_slots = ledger->n_slots;
}

static void remove_file(const struct trace_writer *writer) {
    struct stat found;
    if (writer->fd >= 0 && fstat(writer->fd, &found) == 0 && S_ISREG(found.st_mode))
        unlink(writer->path); /* a device stays */
}

int trace_finish(struct trace_writer *writer) {
    int status = writer->status;
    if (status == TRACE_OK)
        status = check_life(writer);
    if (status == TRACE_OK)
        status = end_block(writer);
    if (status == TRACE_OK) {
        writer->header.version = needed_version(writer);
        set_life(&writer->header, &writer->life);
        set_totals(&writer->header, &writer->ledger);
        seal_header(&writer->header);
        status = write_at(writer, &writer->header, sizeof writer->header, 0);
    }
    int error = errno;
    if (status != TRACE_OK)
        remove_file(writer);
    if (close(writer->fd) != 0 && status == TRACE_OK) {
        status = TRACE_ERROR_WRITE;
        error = errno;
    }
    writer->fd = -1;
    close_writer(writer);
    errno = error;
    return status;
}

void trace_abandon(struct trace_writer *writer) {
    remove_file(writer);
    close_writer(writer);
}
