/* reader.c - open a trace, walk its blocks, hand out checked events.
 *
 * trace_open reads the header and metadata and then only the block headers: so
 * it knows at once whether the file is whole, for the price of one small read
 * per 65536 events.  A file without final totals, or one that ends early, is
 * decoded once in full to find its totals and where its readable part ends.
 *
 * Hostile input: every length is checked against a fixed bound and the end of
 * the file before it is used; events come from the decoder, which reads bounded
 * columns, and pass the ledger.  Memory is bounded by the number of events decoded.
 */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_initStaticDCtx: contexts in our own memory */
#include "trace.h"

#include "decoder.h"
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
    PATH_SHOWN_BYTES = 256
};

struct trace_reader {
    int fd;
    int status;            /* TRACE_OK, or the error that ended reading */
    uint64_t file_bytes;   /* size when opened */
    uint64_t blocks_start; /* file offset of the first block */
    uint64_t readable_end; /* file offset behind the last block to read */
    uint64_t offset;       /* of the next block */
    uint64_t block_offset; /* of the block being read, for messages */
    struct trace_info info;
    struct ledger ledger;
    struct decoder decoder;
    uint32_t events_left; /* of the block being read */
    char *metadata;       /* metadata_bytes + 1, ends with NUL */
    size_t metadata_bytes;
    uint8_t *raw;    /* FORMAT_RAW_MAX_BYTES */
    uint8_t *packed; /* packed_capacity */
    size_t packed_capacity;
    void *workspace; /* of the zstd context */
    size_t workspace_bytes;
    ZSTD_DCtx *unpacker; /* inside workspace */
    char path[PATH_SHOWN_BYTES];
    char message[MESSAGE_BYTES];
};

__attribute__((format(printf, 3, 4))) static int fail(struct trace_reader *reader, int status,
                                                      const char *format, ...) {
    int n = snprintf(reader->message, sizeof reader->message, "%s: ", reader->path);
    va_list arguments;
    va_start(arguments, format);
    if (n > 0 && (size_t)n < sizeof reader->message)
        vsnprintf(reader->message + n, sizeof reader->message - (size_t)n, format, arguments);
    va_end(arguments);
    reader->status = status;
    return status;
}

static int fail_block(struct trace_reader *reader, const char *why) {
    return fail(reader, TRACE_ERROR_FORMAT,
                "block %" PRIu32 " at byte %" PRIu64 ": %s; the file is damaged",
                reader->decoder.block_number, reader->block_offset, why);
}

/* All n bytes at offset, or an error; the end of the file is an error too. */
static int read_at(struct trace_reader *reader, void *buffer, size_t n_bytes, uint64_t offset) {
    char *to = buffer;
    while (n_bytes > 0) {
        ssize_t n = pread(reader->fd, to, n_bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(reader, TRACE_ERROR_OPEN, "cannot read at byte %" PRIu64 ": %s", offset,
                        strerror(errno));
        if (n == 0)
            return fail(reader, TRACE_ERROR_FORMAT, "the file shrank while it was read");
        to += n;
        n_bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return TRACE_OK;
}

/* ---- blocks ---- */

static const char *check_block(const struct format_block *block) {
    if (block->magic != TRACE_BLOCK_MAGIC)
        return "no block begins here";
    if (block->n_events == 0 || block->n_events > FORMAT_BLOCK_EVENTS)
        return "the number of events is out of range";
    if (block->raw_bytes < N_COLUMNS * 4 || block->raw_bytes > FORMAT_RAW_MAX_BYTES)
        return "the unpacked size is out of range";
    if (block->packed_bytes == 0 || block->packed_bytes > ZSTD_COMPRESSBOUND(FORMAT_RAW_MAX_BYTES))
        return "the packed size is out of range";
    if (block->thread >= TRACE_MAX_THREADS || block->reserved != 0 ||
        block->time_quanta > UINT64_MAX / TRACE_TIME_QUANTUM_NS)
        return "a field is out of range";
    return NULL;
}

/* Reads the header at `offset`.  TRACE_END when no whole block is there. */
static int peek_block(struct trace_reader *reader, uint64_t offset, uint64_t end,
                      struct format_block *block) {
    if (end - offset < sizeof *block)
        return TRACE_END;
    if (read_at(reader, block, sizeof *block, offset) != TRACE_OK)
        return reader->status;
    const char *why = check_block(block);
    if (why != NULL)
        return fail_block(reader, why);
    return end - offset - sizeof *block < block->packed_bytes ? TRACE_END : TRACE_OK;
}

static int enter_block(struct trace_reader *reader) {
    struct format_block block;
    reader->decoder.block_number++;
    reader->block_offset = reader->offset;
    int status = peek_block(reader, reader->offset, reader->readable_end, &block);
    if (status != TRACE_OK)
        return status;
    uint64_t frame = reader->offset + sizeof block;
    if (read_at(reader, reader->packed, block.packed_bytes, frame) != TRACE_OK)
        return reader->status;
    uint64_t sum = format_checksum(FORMAT_CHECKSUM_START, &block, sizeof block - 8);
    if (format_checksum(sum, reader->packed, block.packed_bytes) != block.checksum)
        return fail_block(reader, "the checksum does not match");
    size_t n = ZSTD_decompressDCtx(reader->unpacker, reader->raw, FORMAT_RAW_MAX_BYTES,
                                   reader->packed, block.packed_bytes);
    if (ZSTD_isError(n) || n != block.raw_bytes)
        return fail_block(reader, "it cannot be unpacked");
    const char *why = decoder_begin(&reader->decoder, &block, reader->raw, n);
    if (why != NULL)
        return fail_block(reader, why);
    reader->offset = frame + block.packed_bytes;
    reader->events_left = block.n_events;
    return TRACE_OK;
}

/* ---- events ---- */

static const char *take_event(struct trace_reader *reader, struct trace_event *event) {
    const char *why = decoder_next(&reader->decoder, event);
    return why != NULL ? why : ledger_apply(&reader->ledger, event);
}

static int leave_block(struct trace_reader *reader) {
    const char *why = decoder_end(&reader->decoder);
    return why == NULL ? TRACE_OK : fail_block(reader, why);
}

static int check_totals(struct trace_reader *reader) {
    const struct trace_info *info = &reader->info;
    const struct ledger *ledger = &reader->ledger;
    if (info->n_events != ledger->n_events || info->n_slots != ledger->n_slots ||
        info->n_threads != ledger->n_threads || info->duration_ns != ledger->time_ns ||
        info->peak_live_bytes != ledger->peak_live_bytes ||
        info->peak_live_blocks != ledger->peak_live_blocks)
        return fail(reader, TRACE_ERROR_FORMAT,
                    "the totals of the header do not match the events; the file is damaged");
    return TRACE_END;
}

/* The next event, or the end, or an error. */
static int next_event(struct trace_reader *reader, struct trace_event *event) {
    if (reader->events_left == 0) {
        if (reader->offset == reader->readable_end)
            return check_totals(reader);
        int status = enter_block(reader);
        if (status != TRACE_OK)
            return status == TRACE_END ? fail_block(reader, "it is cut off") : status;
    }
    const char *why = take_event(reader, event);
    if (why != NULL)
        return fail_block(reader, why);
    if (reader->ledger.n_slots > reader->info.n_slots ||
        reader->ledger.n_threads > reader->info.n_threads)
        return fail_block(reader, "a slot or thread is not below the count of the header");
    if (event->time_ns > reader->info.duration_ns)
        return fail_block(reader, "a time is after the last one of the header");
    if (--reader->events_left > 0)
        return TRACE_OK;
    int status = leave_block(reader);
    /* Whoever knows how many events there are need not ask for the end. */
    if (status == TRACE_OK && reader->offset == reader->readable_end)
        status = check_totals(reader);
    return status == TRACE_END ? TRACE_OK : status;
}

int trace_read(struct trace_reader *reader, struct trace_event *events, size_t capacity,
               size_t *n_read) {
    *n_read = 0;
    while (*n_read < capacity && reader->status == TRACE_OK) {
        int status = next_event(reader, &events[*n_read]);
        if (status != TRACE_OK)
            reader->status = status;
        else
            ++*n_read;
    }
    return *n_read > 0 ? TRACE_OK : reader->status;
}

/* ---- opening ---- */

static int open_file(struct trace_reader *reader, const char *path) {
    struct stat status;
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (reader->fd < 0)
        return fail(reader, TRACE_ERROR_OPEN, "cannot open the trace: %s", strerror(errno));
    if (fstat(reader->fd, &status) != 0)
        return fail(reader, TRACE_ERROR_OPEN, "cannot examine the trace: %s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(reader, TRACE_ERROR_OPEN, "not a regular file");
    reader->file_bytes = (uint64_t)status.st_size;
    return TRACE_OK;
}

/* The flags are of this version, and the process ends neither before its start nor its events;
 * where the end is not known it is at the last event at the earliest. */
static int has_legal_life(const struct format_header *header) {
    uint32_t most = header->version >= 3 ? FORMAT_ALL_FLAGS : FORMAT_IS_COMPLETE;
    uint64_t end_ns =
        (header->flags & FORMAT_KNOWS_END) != 0 ? header->end_ns : header->duration_ns;
    if (header->flags > most || header->start_ns > TRACE_MAX_LIFE_NS ||
        header->end_ns > TRACE_MAX_LIFE_NS)
        return 0;
    if (end_ns < header->duration_ns)
        return 0;
    return (header->flags & FORMAT_KNOWS_START) == 0 || header->start_ns <= end_ns;
}

static struct trace_life life_of(const struct format_header *header) {
    struct trace_life life = {
        .has_start = (header->flags & FORMAT_KNOWS_START) != 0,
        .has_end = (header->flags & FORMAT_KNOWS_END) != 0,
    };
    life.start_ns = life.has_start ? header->start_ns : 0;
    life.end_ns = life.has_end ? header->end_ns : 0;
    return life;
}

static int check_header(struct trace_reader *reader, const struct format_header *header) {
    if (memcmp(header->magic, TRACE_MAGIC, TRACE_MAGIC_BYTES) != 0)
        return fail(reader, TRACE_ERROR_FORMAT,
                    "not a malloc-tuner trace, and no profile (it begins differently)");
    if (header->version > TRACE_FORMAT_VERSION)
        return fail(reader, TRACE_ERROR_VERSION,
                    "format version %" PRIu32 " is newer than %u, the newest this build reads; "
                    "upgrade malloc-tuner",
                    header->version, TRACE_FORMAT_VERSION);
    uint64_t sum = format_checksum(FORMAT_CHECKSUM_START, header, sizeof *header - 8);
    if (header->version == 0 || header->header_bytes != sizeof *header || sum != header->checksum)
        return fail(reader, TRACE_ERROR_FORMAT,
                    "the header's checksum does not match; the file is damaged");
    if (header->metadata_bytes > FORMAT_METADATA_MAX_BYTES ||
        header->time_quantum_ns != TRACE_TIME_QUANTUM_NS || !has_legal_life(header) ||
        header->n_threads > TRACE_MAX_THREADS || header->n_slots > TRACE_MAX_SLOTS)
        return fail(reader, TRACE_ERROR_FORMAT, "a field of the header is out of range");
    return TRACE_OK;
}

static int read_metadata(struct trace_reader *reader, uint64_t metadata_bytes) {
    uint64_t checksum;
    uint64_t start = sizeof(struct format_header);
    if (reader->file_bytes - start < metadata_bytes + sizeof checksum)
        return fail(reader, TRACE_ERROR_FORMAT, "the file ends inside its metadata");
    reader->metadata_bytes = (size_t)metadata_bytes;
    reader->metadata = memory_map(reader->metadata_bytes + 1);
    if (reader->metadata == NULL)
        return fail(reader, TRACE_ERROR_MEMORY, "no memory for the metadata");
    if (read_at(reader, reader->metadata, reader->metadata_bytes, start) != TRACE_OK ||
        read_at(reader, &checksum, sizeof checksum, start + metadata_bytes) != TRACE_OK)
        return reader->status;
    if (format_checksum(FORMAT_CHECKSUM_START, reader->metadata, metadata_bytes) != checksum)
        return fail(reader, TRACE_ERROR_FORMAT,
                    "the checksum of the metadata does not match; the file is damaged");
    reader->blocks_start = start + metadata_bytes + sizeof checksum;
    return TRACE_OK;
}

/* Sets the totals from the header; returns whether they are final. */
static int read_header(struct trace_reader *reader, struct format_header *header) {
    if (reader->file_bytes < sizeof *header)
        return fail(reader, TRACE_ERROR_FORMAT,
                    "not a malloc-tuner trace (only %" PRIu64 " bytes long)", reader->file_bytes);
    if (read_at(reader, header, sizeof *header, 0) != TRACE_OK ||
        check_header(reader, header) != TRACE_OK)
        return reader->status;
    reader->info = (struct trace_info){
        .version = header->version,
        .n_threads = header->n_threads,
        .n_slots = header->n_slots,
        .page_bytes = header->page_bytes,
        .n_events = header->n_events,
        .duration_ns = header->duration_ns,
        .peak_live_bytes = header->peak_live_bytes,
        .peak_live_blocks = header->peak_live_blocks,
        .is_complete = (header->flags & FORMAT_IS_COMPLETE) != 0,
        .life = life_of(header),
    };
    return read_metadata(reader, header->metadata_bytes);
}

/* Walks the block headers: are all there, and do they add up to the totals? */
static int walk_blocks(struct trace_reader *reader, uint64_t blocks_bytes) {
    uint64_t available = reader->file_bytes - reader->blocks_start;
    if (available < blocks_bytes) {
        reader->info.is_complete = 0;
        return TRACE_OK;
    }
    if (available > blocks_bytes)
        return fail(reader, TRACE_ERROR_FORMAT, "there are bytes behind the last block");
    uint64_t n_events = 0;
    uint64_t offset = reader->blocks_start;
    while (offset < reader->file_bytes) {
        struct format_block block;
        reader->decoder.block_number++;
        reader->block_offset = offset;
        int status = peek_block(reader, offset, reader->file_bytes, &block);
        if (status != TRACE_OK)
            return status == TRACE_END ? fail_block(reader, "it is cut off") : status;
        n_events += block.n_events;
        offset += sizeof block + block.packed_bytes;
    }
    const struct trace_info *info = &reader->info;
    if (n_events != info->n_events || info->n_slots > n_events || info->n_threads == 0 ||
        info->n_threads > n_events + 1 || info->peak_live_blocks > info->n_slots)
        return fail(reader, TRACE_ERROR_FORMAT,
                    "the totals of the header do not match the blocks; the file is damaged");
    reader->readable_end = reader->file_bytes;
    return TRACE_OK;
}

/* Back to the first event. */
static int rewind_reader(struct trace_reader *reader) {
    ledger_close(&reader->ledger);
    decoder_close(&reader->decoder);
    if (!ledger_open(&reader->ledger) || !decoder_open(&reader->decoder))
        return fail(reader, TRACE_ERROR_MEMORY, "no memory for the table of slots");
    reader->ledger.page_bytes = reader->info.page_bytes;
    reader->decoder.version = reader->info.version;
    reader->offset = reader->blocks_start;
    reader->events_left = 0;
    reader->status = TRACE_OK;
    return TRACE_OK;
}

static void set_totals(struct trace_info *info, const struct ledger *ledger) {
    info->n_events = ledger->n_events;
    info->n_slots = ledger->n_slots;
    info->n_threads = ledger->n_threads;
    info->duration_ns = ledger->time_ns;
    info->peak_live_bytes = ledger->peak_live_bytes;
    info->peak_live_blocks = ledger->peak_live_blocks;
}

/* Decodes an unfinished file as far as it goes, once, to learn its totals. */
static int scan_blocks(struct trace_reader *reader) {
    struct trace_event event;
    uint64_t good_end = reader->blocks_start;
    reader->readable_end = reader->file_bytes;
    reader->info.n_slots = TRACE_MAX_SLOTS;
    reader->info.n_threads = TRACE_MAX_THREADS;
    set_totals(&reader->info, &reader->ledger);
    while (reader->offset < reader->file_bytes && enter_block(reader) == TRACE_OK) {
        int is_good = 1;
        while (is_good && reader->events_left > 0) {
            is_good = take_event(reader, &event) == NULL;
            reader->events_left--;
        }
        if (!is_good || leave_block(reader) != TRACE_OK)
            break;
        good_end = reader->offset;
        set_totals(&reader->info, &reader->ledger);
    }
    if (reader->status == TRACE_ERROR_OPEN)
        return reader->status;
    reader->readable_end = good_end;
    reader->info.life.has_end = 0; /* what came before it is missing */
    reader->info.life.end_ns = 0;
    if (reader->info.life.start_ns > reader->info.duration_ns) /* nothing is left of its life */
        reader->info.life = (struct trace_life){0};
    return rewind_reader(reader);
}

static int allocate_buffers(struct trace_reader *reader) {
    reader->packed_capacity = ZSTD_COMPRESSBOUND(FORMAT_RAW_MAX_BYTES);
    reader->workspace_bytes = ZSTD_estimateDCtxSize();
    reader->raw = memory_map(FORMAT_RAW_MAX_BYTES);
    reader->packed = memory_map(reader->packed_capacity);
    reader->workspace = memory_map(reader->workspace_bytes);
    if (reader->raw == NULL || reader->packed == NULL || reader->workspace == NULL)
        return fail(reader, TRACE_ERROR_MEMORY, "no memory for the buffers");
    reader->unpacker = ZSTD_initStaticDCtx(reader->workspace, reader->workspace_bytes);
    if (reader->unpacker == NULL)
        return fail(reader, TRACE_ERROR_MEMORY, "no memory for unpacking");
    return TRACE_OK;
}

static int open_reader(struct trace_reader *reader, const char *path) {
    struct format_header header = {0};
    if (open_file(reader, path) != TRACE_OK || read_header(reader, &header) != TRACE_OK ||
        allocate_buffers(reader) != TRACE_OK)
        return reader->status;
    if (reader->info.is_complete && walk_blocks(reader, header.blocks_bytes) != TRACE_OK)
        return reader->status;
    if (rewind_reader(reader) != TRACE_OK)
        return reader->status;
    return reader->info.is_complete ? TRACE_OK : scan_blocks(reader);
}

int trace_open(const char *path, struct trace_reader **reader, char *message,
               size_t message_bytes) {
    *reader = NULL;
    struct trace_reader *new_reader = memory_map(sizeof *new_reader);
    if (new_reader == NULL) {
        snprintf(message, message_bytes, "%s: no memory for the reader", path);
        return TRACE_ERROR_MEMORY;
    }
    new_reader->fd = -1;
    snprintf(new_reader->path, sizeof new_reader->path, "%s", path);
    int status = open_reader(new_reader, path);
    if (status != TRACE_OK) {
        snprintf(message, message_bytes, "%s", new_reader->message);
        trace_close(new_reader);
        return status;
    }
    *reader = new_reader;
    return TRACE_OK;
}

void trace_get_info(const struct trace_reader *reader, struct trace_info *info) {
    *info = reader->info;
}

const char *trace_metadata(const struct trace_reader *reader) {
    return reader->metadata;
}

const char *trace_message(const struct trace_reader *reader) {
    return reader->message;
}

void trace_close(struct trace_reader *reader) {
    if (reader == NULL)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    ledger_close(&reader->ledger);
    decoder_close(&reader->decoder);
    memory_unmap(reader->metadata, reader->metadata_bytes + 1);
    memory_unmap(reader->raw, FORMAT_RAW_MAX_BYTES);
    memory_unmap(reader->packed, reader->packed_capacity);
    memory_unmap(reader->workspace, reader->workspace_bytes);
    memory_unmap(reader, sizeof *reader);
}
