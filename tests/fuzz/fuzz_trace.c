/* fuzz_trace.c - libFuzzer target of the trace reader: no input crashes it, and
 * every event it returns keeps the rules of trace.h.
 *
 * The first byte chooses what the rest is:
 *   even  a whole file
 *   odd   the columns of one block, unpacked: thread, time and the number of events,
 *         then the four lengths and the columns.  The target packs them and adds
 *         right checksums, which chance would never find.
 */
#include "../../rand_malloc/trace/format.h"
#include "../../rand_malloc/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* What the block header takes from the input. */
struct block_input {
    uint64_t time_quanta;
    uint32_t thread;
    uint32_t n_events;
};

static void require(int condition) {
    if (!condition)
        abort();
}

static void put(int fd, const void *bytes, size_t n_bytes) {
    require(write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
}

/* A file without final totals, as after a kill, with one block of these columns. */
static void put_block_file(int fd, const uint8_t *data, size_t n_bytes) {
    static uint8_t packed[1 << 20];
    struct block_input input;
    struct format_header header = {.version = TRACE_FORMAT_VERSION,
                                   .header_bytes = sizeof header,
                                   .page_bytes = 4096,
                                   .time_quantum_ns = TRACE_TIME_QUANTUM_NS};
    uint64_t metadata_sum = FORMAT_CHECKSUM_START;
    if (n_bytes < sizeof input)
        return;
    memcpy(&input, data, sizeof input);
    memcpy(header.magic, TRACE_MAGIC, TRACE_MAGIC_BYTES);
    header.checksum = format_checksum(FORMAT_CHECKSUM_START, &header, sizeof header - 8);
    data += sizeof input;
    n_bytes -= sizeof input;
    size_t n = ZSTD_compress(packed, sizeof packed, data, n_bytes, 1);
    if (ZSTD_isError(n))
        return;
    struct format_block block = {.magic = TRACE_BLOCK_MAGIC,
                                 .n_events = input.n_events,
                                 .raw_bytes = (uint32_t)n_bytes,
                                 .packed_bytes = (uint32_t)n,
                                 .time_quanta = input.time_quanta,
                                 .thread = input.thread};
    uint64_t sum = format_checksum(FORMAT_CHECKSUM_START, &block, sizeof block - 8);
    block.checksum = format_checksum(sum, packed, n);
    put(fd, &header, sizeof header);
    put(fd, &metadata_sum, sizeof metadata_sum);
    put(fd, &block, sizeof block);
    put(fd, packed, n);
}

static void check_events(const struct trace_event *events, size_t n_events,
                         const struct trace_info *info, uint64_t *time_ns) {
    for (size_t i = 0; i < n_events; i++) {
        const struct trace_event *event = &events[i];
        require(event->op < TRACE_OP_COUNT && event->api < TRACE_API_COUNT);
        require(event->thread < info->n_threads && event->owner < info->n_threads);
        require(event->op >= TRACE_THREAD_START || event->slot < info->n_slots);
        require(event->size <= TRACE_MAX_SIZE && event->align_log2 <= TRACE_MAX_ALIGN_LOG2);
        require(event->time_ns >= *time_ns && event->reserved == 0 && event->reserved2 == 0);
        require(event->touch == 0 || event->op <= TRACE_REALLOC);
        require(trace_untouched(event, info->page_bytes) <= event->size);
        *time_ns = event->time_ns;
    }
}

static void read_file(const char *path) {
    static struct trace_event events[512];
    char message[256];
    struct trace_reader *reader;
    struct trace_info info;
    size_t n_read;
    uint64_t time_ns = 0;
    uint64_t n_events = 0;
    int status = trace_open(path, &reader, message, sizeof message);
    require((status == TRACE_OK) == (reader != NULL));
    if (reader == NULL)
        return;
    trace_get_info(reader, &info);
    require(!info.life.has_end || info.life.end_ns >= info.duration_ns);
    require(!info.life.has_start || !info.life.has_end || info.life.start_ns <= info.life.end_ns);
    while ((status = trace_read(reader, events, 512, &n_read)) == TRACE_OK) {
        check_events(events, n_read, &info, &time_ns);
        n_events += n_read;
    }
    require(status == TRACE_END || trace_message(reader)[0] != '\0');
    require(status != TRACE_END || n_events == info.n_events);
    require(info.is_complete || status == TRACE_END);
    trace_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static int fd = -1;
    char path[32];
    if (fd < 0)
        fd = memfd_create("fuzz_trace", 0);
    if (n_bytes == 0)
        return 0;
    require(fd >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    if (data[0] % 2 == 0)
        put(fd, data + 1, n_bytes - 1);
    else
        put_block_file(fd, data + 1, n_bytes - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_file(path);
    return 0;
}
