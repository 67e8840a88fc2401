/* test_trace.c - what the trace library promises in trace.h.
 *
 * A generator makes random legal traces (fixed seeds); written and read back they
 * must be equal, cut off at any byte they must end early and never crash, damaged
 * they must be refused, and illegal events must be refused by the writer.
 */
#include "check.h"
#include "format.h"
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum {
    N_LANES = 4,
    MAX_EVENTS = 200000
};

static char path[64];
static char message[512];

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- generator of legal traces ---- */

struct generator {
    uint64_t random;
    uint64_t time_ns;
    uint32_t n_slots;
    uint32_t live[MAX_EVENTS]; /* slots */
    uint32_t n_live;
    uint32_t owners[MAX_EVENTS];
    uint32_t free_slots[N_LANES][MAX_EVENTS];
    uint32_t n_free[N_LANES];
    int is_running[N_LANES];
};

/* Of some blocks is known what was touched; of a block of less than a page all is. */
static uint32_t make_touch(struct generator *g, uint64_t size) {
    uint64_t most = size / 4096 < UINT32_MAX - 1 ? size / 4096 : UINT32_MAX - 1;
    if (next_random(&g->random) % 3 != 0)
        return 0;
    return (uint32_t)(next_random(&g->random) % (most + 1)) + 1;
}

static struct trace_event make_allocation(struct generator *g, uint32_t thread) {
    struct trace_event event = {.thread = thread, .owner = thread};
    event.op = (uint8_t)(next_random(&g->random) % 3);
    event.api = (uint8_t)(next_random(&g->random) % 9);
    event.size = next_random(&g->random) >> (next_random(&g->random) % 47 + 17);
    event.align_log2 = event.op == TRACE_ALIGNED ? (uint8_t)(next_random(&g->random) % 13) : 0;
    event.touch = make_touch(g, event.size);
    event.slot = g->n_free[thread] > 0 ? g->free_slots[thread][--g->n_free[thread]] : g->n_slots++;
    g->live[g->n_live++] = event.slot;
    g->owners[event.slot] = thread;
    return event;
}

static struct trace_event make_change(struct generator *g, uint32_t thread) {
    uint32_t i = (uint32_t)(next_random(&g->random) % g->n_live);
    uint32_t slot = g->live[i];
    struct trace_event event = {.thread = thread, .slot = slot, .owner = g->owners[slot]};
    if (next_random(&g->random) % 4 == 0) {
        event.op = TRACE_REALLOC;
        event.api = TRACE_API_REALLOC;
        event.size = next_random(&g->random) % 50000;
        event.touch = make_touch(g, event.size);
        g->owners[slot] = thread;
        return event;
    }
    event.op = TRACE_FREE;
    event.api = TRACE_API_FREE;
    g->live[i] = g->live[--g->n_live];
    g->free_slots[thread][g->n_free[thread]++] = slot;
    return event;
}

static struct trace_event make_event(struct generator *g) {
    uint32_t thread = (uint32_t)(next_random(&g->random) % N_LANES);
    struct trace_event event;
    if (thread > 0 && (!g->is_running[thread] || next_random(&g->random) % 100 == 0)) {
        while (!g->is_running[thread - 1] && thread > 1)
            thread--; /* lanes come into use in order */
        event = (struct trace_event){.thread = thread, .owner = thread, .api = TRACE_API_THREAD};
        event.op = g->is_running[thread] ? TRACE_THREAD_EXIT : TRACE_THREAD_START;
        g->is_running[thread] = !g->is_running[thread];
    } else if (g->n_live == 0 || next_random(&g->random) % 2 == 0) {
        event = make_allocation(g, thread);
    } else {
        event = make_change(g, thread);
    }
    g->time_ns += next_random(&g->random) % 3 * TRACE_TIME_QUANTUM_NS;
    event.time_ns = g->time_ns;
    return event;
}

static struct trace_event *make_trace(uint64_t seed, size_t n_events) {
    struct generator *g = calloc(1, sizeof *g);
    struct trace_event *events = calloc(n_events, sizeof *events);
    CHECK(g != NULL && events != NULL);
    g->random = seed;
    g->is_running[0] = 1;
    for (size_t i = 0; i < n_events; i++)
        events[i] = make_event(g);
    free(g);
    return events;
}

/* ---- helpers ---- */

static void write_trace(const struct trace_event *events, size_t n_events, int is_finished) {
    struct trace_writer *writer;
    CHECK(trace_create(path, "{\"a\":1}", 4096, &writer, message, sizeof message) == TRACE_OK);
    int status = trace_write(writer, events, n_events);
    if (status != TRACE_OK)
        fprintf(stderr, "%s\n", trace_writer_message(writer));
    CHECK(status == TRACE_OK);
    if (is_finished)
        CHECK(trace_finish(writer) == TRACE_OK);
}

/* Reads everything in odd-sized steps; the status that ended it. */
static int read_trace(struct trace_event *events, size_t capacity, size_t *n_events) {
    struct trace_reader *reader;
    *n_events = 0;
    int status = trace_open(path, &reader, message, sizeof message);
    if (status != TRACE_OK) {
        CHECK(reader == NULL);
        CHECK(message[0] != '\0');
        return status;
    }
    while (status == TRACE_OK) {
        size_t n;
        size_t step = capacity - *n_events < 777 ? capacity - *n_events : 777;
        status = trace_read(reader, events + *n_events, step, &n);
        *n_events += n;
        if (step == 0)
            break;
    }
    snprintf(message, sizeof message, "%s", trace_message(reader));
    trace_close(reader);
    return status;
}

static size_t load_file(unsigned char **bytes) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    size_t n = (size_t)ftell(file);
    rewind(file);
    *bytes = malloc(n);
    CHECK(fread(*bytes, 1, n, file) == n);
    fclose(file);
    return n;
}

static void store_file(const unsigned char *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK(fwrite(bytes, 1, n, file) == n);
    CHECK(fclose(file) == 0);
}

static struct format_header load_header(void) {
    struct format_header header;
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    CHECK(fread(&header, sizeof header, 1, file) == 1);
    fclose(file);
    return header;
}

/* Replaces the header of a trace by this one, with a good checksum. */
static void store_header(struct format_header header) {
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL);
    header.checksum = format_checksum(FORMAT_CHECKSUM_START, &header, sizeof header - 8);
    CHECK(fwrite(&header, sizeof header, 1, file) == 1);
    CHECK(fclose(file) == 0);
}

/* ---- tests ---- */

static void test_read_returns_what_was_written(uint64_t seed, size_t n_events) {
    struct trace_event *events = make_trace(seed, n_events);
    struct trace_event *back = calloc(n_events + 1, sizeof *back);
    size_t n_back = 0;
    write_trace(events, n_events, 1);
    CHECK(read_trace(back, n_events + 1, &n_back) == TRACE_END);
    CHECK(n_back == n_events);
    for (size_t i = 0; i < n_events; i++)
        CHECK(memcmp(&events[i], &back[i], sizeof *events) == 0);
    free(events);
    free(back);
}

TEST(totals_are_those_of_the_events) {
    struct trace_event events[] = {
        {.op = TRACE_MALLOC, .size = 100, .slot = 0},
        {.op = TRACE_MALLOC, .size = 50, .slot = 1, .time_ns = 29999},
        {.op = TRACE_FREE, .slot = 0, .time_ns = 30000},
        {.op = TRACE_REALLOC, .slot = 1, .size = 60, .time_ns = 50000},
        {.op = TRACE_THREAD_START, .thread = 1, .time_ns = 50000},
    };
    struct trace_reader *reader;
    struct trace_info info;
    write_trace(events, 5, 1);
    CHECK(trace_open(path, &reader, message, sizeof message) == TRACE_OK);
    trace_get_info(reader, &info);
    CHECK(strcmp(trace_metadata(reader), "{\"a\":1}") == 0);
    trace_close(reader);
    CHECK(info.version == 1 && info.page_bytes == 4096); /* without touches older readers do */
    CHECK(info.n_events == 5 && info.n_slots == 2 && info.n_threads == 2);
    CHECK(info.duration_ns == 50000 && info.is_complete);
    CHECK(info.peak_live_bytes == 150 && info.peak_live_blocks == 2);
}

TEST(cut_off_at_every_byte_it_ends_early) {
    enum {
        N = 70000,
        STEP = 97
    };
    struct trace_event *events = make_trace(5, N);
    struct trace_event *back = calloc(N + 1, sizeof *back);
    unsigned char *bytes;
    size_t n_back = 0;
    write_trace(events, N, 1);
    size_t n_bytes = load_file(&bytes);
    for (size_t cut = 0; cut < n_bytes; cut += cut < 400 || cut + 400 > n_bytes ? 1 : STEP * 257) {
        store_file(bytes, cut);
        int status = read_trace(back, N + 1, &n_back);
        CHECK(status == (cut < 128 + 7 + 8 ? TRACE_ERROR_FORMAT : TRACE_END));
        CHECK(n_back == 0 || n_back == 65536);
        CHECK(memcmp(events, back, n_back * sizeof *back) == 0);
    }
    CHECK(n_back == 65536);
    free(bytes);
    free(events);
    free(back);
}

TEST(damage_is_noticed) {
    enum {
        N = 500
    };
    struct trace_event *events = make_trace(6, N);
    struct trace_event back[N + 1];
    unsigned char *bytes;
    size_t n_back = 0;
    write_trace(events, N, 1);
    size_t n_bytes = load_file(&bytes);
    for (size_t i = 0; i < n_bytes * 8; i += 3) {
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        store_file(bytes, n_bytes);
        int status = read_trace(back, N + 1, &n_back);
        CHECK(status == TRACE_ERROR_FORMAT || status == TRACE_ERROR_VERSION);
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    free(bytes);
    free(events);
}

TEST(a_writer_that_was_killed_leaves_a_readable_trace) {
    enum {
        N = 150000
    };
    struct trace_event *events = make_trace(7, N);
    struct trace_event *back = calloc(N + 1, sizeof *back);
    size_t n_back = 0;
    write_trace(events, N, 0);
    CHECK(read_trace(back, N + 1, &n_back) == TRACE_END);
    CHECK(n_back == 131072);
    CHECK(memcmp(events, back, n_back * sizeof *back) == 0);
    free(events);
    free(back);
}

/* Writes a trace of one event at 30 us with that life; returns what trace_finish says. */
static int write_life(struct trace_life life) {
    struct trace_event event = {.op = TRACE_MALLOC, .time_ns = 30000};
    struct trace_writer *writer;
    CHECK(trace_create(path, "{}", 4096, &writer, message, sizeof message) == TRACE_OK);
    CHECK(trace_write(writer, &event, 1) == TRACE_OK);
    trace_set_life(writer, &life);
    return trace_finish(writer);
}

static struct trace_info read_info(void) {
    struct trace_reader *reader;
    struct trace_info info;
    CHECK(trace_open(path, &reader, message, sizeof message) == TRACE_OK);
    trace_get_info(reader, &info);
    trace_close(reader);
    return info;
}

TEST(the_life_of_the_process_is_kept) {
    CHECK(write_life((struct trace_life){10000, 70001, 1, 1, {0}}) == TRACE_OK);
    struct trace_info info = read_info();
    CHECK(info.version == 3 && info.duration_ns == 30000);
    CHECK(info.life.has_start && info.life.start_ns == 10000);
    CHECK(info.life.has_end && info.life.end_ns == 70001);
    CHECK(write_life((struct trace_life){.has_start = 1}) == TRACE_OK);
    info = read_info();
    CHECK(info.version == 3 && info.life.has_start && info.life.start_ns == 0);
    CHECK(!info.life.has_end);
}

TEST(what_is_not_known_of_a_life_is_not_told) {
    CHECK(write_life((struct trace_life){.start_ns = 5, .end_ns = 6}) == TRACE_OK);
    struct trace_info info = read_info();
    CHECK(info.version == 1 && !info.life.has_start && !info.life.has_end);
    CHECK(info.life.start_ns == 0 && info.life.end_ns == 0);
}

TEST(an_impossible_life_is_refused) {
    CHECK(write_life((struct trace_life){.end_ns = 29999, .has_end = 1}) == TRACE_ERROR_FORMAT);
    CHECK(access(path, F_OK) != 0);
    CHECK(write_life((struct trace_life){50000, 40000, 1, 1, {0}}) == TRACE_ERROR_FORMAT);
    CHECK(write_life((struct trace_life){.start_ns = 30001, .has_start = 1}) == TRACE_ERROR_FORMAT);
    CHECK(write_life((struct trace_life){.start_ns = 30000, .has_start = 1}) == TRACE_OK);
}

/* Reads a good trace of which the header says something else. */
static int read_with_life(uint32_t version, uint32_t flags, uint64_t start_ns, uint64_t end_ns) {
    struct trace_event back[2];
    size_t n_back = 0;
    CHECK(write_life((struct trace_life){0, 70000, 1, 1, {0}}) == TRACE_OK);
    struct format_header header = load_header();
    header.version = version;
    header.flags = flags;
    header.start_ns = start_ns;
    header.end_ns = end_ns;
    store_header(header);
    return read_trace(back, 2, &n_back);
}

TEST(a_header_with_an_impossible_life_is_refused) {
    CHECK(read_with_life(3, 7, 0, 70000) == TRACE_END);
    CHECK(read_with_life(3, 3, 0, 0) == TRACE_END);
    CHECK(read_with_life(3, 15, 0, 70000) == TRACE_ERROR_FORMAT);
    CHECK(read_with_life(2, 3, 0, 70000) == TRACE_ERROR_FORMAT); /* no flag of that version */
    CHECK(read_with_life(3, 7, 0, 29999) == TRACE_ERROR_FORMAT);
    CHECK(read_with_life(3, 7, 70001, 70000) == TRACE_ERROR_FORMAT);
    CHECK(read_with_life(3, 3, UINT64_MAX, 0) == TRACE_ERROR_FORMAT);
    CHECK(read_with_life(3, 3, 30000, 0) == TRACE_END); /* no end: not before the last event */
    CHECK(read_with_life(3, 3, 30001, 0) == TRACE_ERROR_FORMAT);
}

static struct trace_info read_cut_off(struct trace_life life) {
    unsigned char *bytes;
    CHECK(write_life(life) == TRACE_OK);
    size_t n_bytes = load_file(&bytes);
    store_file(bytes, n_bytes - 1);
    free(bytes);
    return read_info();
}

/* What came before the end is missing. */
TEST(a_trace_that_was_cut_off_has_no_end) {
    struct trace_info info = read_cut_off((struct trace_life){0, 70000, 1, 1, {0}});
    CHECK(!info.is_complete && info.life.has_start && !info.life.has_end);
}

TEST(a_trace_that_was_cut_off_before_its_start_has_none) {
    struct trace_info info = read_cut_off((struct trace_life){1, 70000, 1, 1, {0}});
    CHECK(info.duration_ns == 0 && !info.life.has_start && info.life.start_ns == 0);
}

TEST(totals_that_do_not_match_the_events_are_noticed) {
    struct trace_event event = {.op = TRACE_MALLOC, .size = 10};
    struct trace_event back[2];
    size_t n_back = 0;
    write_trace(&event, 1, 1);
    struct format_header header = load_header();
    header.peak_live_bytes = 11;
    store_header(header);
    for (size_t capacity = 1; capacity <= 2; capacity++) { /* nor is the end asked for */
        CHECK(read_trace(back, capacity, &n_back) == TRACE_ERROR_FORMAT);
        CHECK(strstr(message, "the totals of the header do not match the events") != NULL);
    }
}

TEST(a_time_after_the_duration_is_noticed_at_once) {
    struct trace_event back[2];
    size_t n_back = 0;
    CHECK(write_life((struct trace_life){0, 70000, 1, 1, {0}}) == TRACE_OK);
    struct format_header header = load_header();
    header.duration_ns = 20000;
    store_header(header);
    CHECK(read_trace(back, 2, &n_back) == TRACE_ERROR_FORMAT);
    CHECK(strstr(message, "a time is after the last one of the header") != NULL);
}

/* A file whose only block holds these columns, without totals. */
static void store_block(uint32_t version, const char *codes, size_t n_codes, const char *extras,
                        size_t n_extras) {
    unsigned char raw[64] = {0};
    unsigned char packed[256];
    const unsigned char slots_and_sizes[] = {0, 100};
    uint32_t lengths[N_COLUMNS] = {(uint32_t)n_codes, 1, 1, (uint32_t)n_extras};
    size_t n = sizeof lengths;
    memcpy(raw, lengths, n);
    memcpy(raw + n, codes, n_codes);
    memcpy(raw + n + n_codes, slots_and_sizes, 2);
    memcpy(raw + n + n_codes + 2, extras, n_extras);
    n += n_codes + 2 + n_extras;
    struct format_header header = {.version = version, .header_bytes = sizeof header};
    struct format_block block = {.magic = TRACE_BLOCK_MAGIC, .n_events = 1};
    uint64_t metadata_sum = FORMAT_CHECKSUM_START;
    memcpy(header.magic, TRACE_MAGIC, TRACE_MAGIC_BYTES);
    header.page_bytes = 16;
    header.time_quantum_ns = TRACE_TIME_QUANTUM_NS;
    header.checksum = format_checksum(FORMAT_CHECKSUM_START, &header, sizeof header - 8);
    block.raw_bytes = (uint32_t)n;
    block.packed_bytes = (uint32_t)ZSTD_compress(packed, sizeof packed, raw, n, 1);
    uint64_t sum = format_checksum(FORMAT_CHECKSUM_START, &block, sizeof block - 8);
    block.checksum = format_checksum(sum, packed, block.packed_bytes);
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(&header, sizeof header, 1, file) == 1);
    CHECK(fwrite(&metadata_sum, sizeof metadata_sum, 1, file) == 1);
    CHECK(fwrite(&block, sizeof block, 1, file) == 1);
    CHECK(fwrite(packed, block.packed_bytes, 1, file) == 1 && fclose(file) == 0);
}

/* What cannot be decoded is cut off: 1 event or none. */
static size_t count_events(void) {
    struct trace_event back[2];
    size_t n_back = 0;
    CHECK(read_trace(back, 2, &n_back) == TRACE_END);
    CHECK(n_back == 0 || back[0].size == 100);
    return n_back;
}

TEST(a_corrupt_touch_is_no_event) {
    const char code[] = {CODE_TOUCH, TRACE_MALLOC};
    const char twice[] = {CODE_TOUCH, CODE_TOUCH, TRACE_MALLOC};
    store_block(2, code, 2, "\x07", 1); /* 6 of the 6 pages of 16 bytes */
    CHECK(count_events() == 1);
    store_block(1, code, 2, "\x07", 1); /* version 1 has no such marker */
    CHECK(count_events() == 0);
    store_block(2, code, 2, "\x08", 1); /* more pages than the block has */
    CHECK(count_events() == 0);
    store_block(2, code, 2, "\x00", 1); /* not known: has no marker */
    CHECK(count_events() == 0);
    store_block(2, code, 2, "\x80\x80\x80\x80\x10", 5); /* 2^32 */
    CHECK(count_events() == 0);
    store_block(2, twice, 3, "\x07\x07", 2);
    CHECK(count_events() == 0);
    store_block(2, code + 1, 1, "\x07", 1); /* bytes that no marker asks for */
    CHECK(count_events() == 0);
}

static void check_refused(const struct trace_event *events, size_t n_events, const char *why) {
    struct trace_writer *writer;
    CHECK(trace_create(path, "{}", 4096, &writer, message, sizeof message) == TRACE_OK);
    CHECK(trace_write(writer, events, n_events) == TRACE_ERROR_FORMAT);
    if (strstr(trace_writer_message(writer), why) == NULL)
        fprintf(stderr, "got: %s\n", trace_writer_message(writer));
    CHECK(strstr(trace_writer_message(writer), why) != NULL);
    trace_abandon(writer);
    CHECK(access(path, F_OK) != 0);
}

TEST(illegal_events_are_refused) {
    const struct trace_event start = {.op = TRACE_THREAD_START, .thread = 1};
    const struct trace_event odd[] = {{.op = TRACE_FREE, .touch = 1}};
    const struct trace_event wide[] = {{.op = TRACE_MALLOC, .size = 8191, .touch = 3}};
    check_refused(odd, 1, "event 0: a count of untouched pages belongs to no allocation");
    check_refused(wide, 1, "event 0: more pages are untouched than the block has");
    const struct trace_event block = {.op = TRACE_MALLOC};
    const struct trace_event twice[] = {block, block};
    const struct trace_event sparse[] = {{.op = TRACE_MALLOC, .slot = 1}};
    const struct trace_event unknown[] = {{.op = TRACE_FREE}};
    const struct trace_event dead[] = {block, {.op = TRACE_FREE}, {.op = TRACE_REALLOC}};
    const struct trace_event stolen[] = {
        block, start, {.op = TRACE_FREE, .thread = 1}, {.op = TRACE_MALLOC, .thread = 0}};
    const struct trace_event stranger[] = {{.op = TRACE_MALLOC, .thread = 1}};
    const struct trace_event gone[] = {
        start, {.op = TRACE_THREAD_EXIT, .thread = 1}, {.op = TRACE_MALLOC, .thread = 1}};
    const struct trace_event first[] = {{.op = TRACE_THREAD_START, .thread = 0}};
    const struct trace_event back[] = {{.op = TRACE_MALLOC, .time_ns = 20000},
                                       {.op = TRACE_MALLOC, .slot = 1, .time_ns = 9999}};
    check_refused(twice, 2, "event 1: an allocation names a slot that is live");
    check_refused(sparse, 1, "event 0: a new slot is not the next unused number");
    check_refused(unknown, 1, "event 0: a free names a slot that is not live");
    check_refused(dead, 3, "event 2: a realloc names a slot that is not live");
    check_refused(stolen, 4, "event 3: an allocation names a slot that another thread freed");
    check_refused(stranger, 1, "event 0: a thread number is not in use");
    check_refused(gone, 3, "event 2: a thread acts before its start or after its exit");
    check_refused(first, 1, "event 0: thread 0 neither starts nor exits");
    check_refused(back, 2, "event 1: time goes back");
}

int main(void) {
    snprintf(path, sizeof path, "test_trace.%d.trace", (int)getpid());
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_read_returns_what_was_written(seed * 7919, seed * seed * 10);
    test_read_returns_what_was_written(4, 200000);
    run_tests();
    unlink(path);
    puts("passed");
    return 0;
}
