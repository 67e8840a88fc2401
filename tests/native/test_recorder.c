/* test_recorder.c - the builder: from addresses of spools to slots of a trace.
 *
 * Spools are made by hand, with stamps that real clocks produce once in a
 * million events; the map from addresses to slots is checked against an array.
 */
#include "builder/address_map.h"
#include "builder/builder.h"
#include "builder/spool_reader.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_STRIDES = 8,
    MOST_EVENTS = 64
};

static char spool_path[64];
static char trace_path[64];
static char message[600];
static struct trace_event events[MOST_EVENTS]; /* of the trace built last */

/* ---- spools by hand ---- */

static struct {
    struct spool_header header;
    uint8_t padding[SPOOL_STRIDE_BYTES - sizeof(struct spool_header)];
    struct lane strides[MOST_STRIDES];
} file;

/* A buffer of lane `home`, its `sequence`th, in stride `number`. */
static struct lane *add_stride(uint32_t number, uint32_t home, uint64_t sequence) {
    struct lane *lane = &file.strides[number - 1];
    lane->magic = SPOOL_LANE_MAGIC;
    lane->home = home;
    lane->state = sequence << 32;
    lane->first_stamp = 1000;
    lane->last_stamp = 1000;
    return lane;
}

/* Begins a spool with a buffer of the first thread's lane. */
static struct lane *new_spool(void) {
    memset(&file, 0, sizeof file);
    memcpy(file.header.magic, SPOOL_MAGIC, sizeof file.header.magic);
    file.header.version = SPOOL_VERSION;
    file.header.page_bytes = 4096;
    file.header.start_stamp = 1000; /* the boot is unknown: one stamp is 1 ns */
    return add_stride(1, 1, 1);
}

static void add_long(struct lane *lane, unsigned code, uint64_t address, uint64_t second) {
    uint64_t *words = &lane->words[(uint32_t)lane->state];
    words[0] = RECORD_LONG | (uint64_t)code << LONG_CODE_SHIFT | address << LONG_ADDRESS_SHIFT;
    words[1] = second;
    lane->state += 2;
}

static void add(struct lane *lane, unsigned code, uint64_t address, uint64_t size, uint64_t stamp) {
    add_long(lane, code, address, size | (stamp - lane->last_stamp) << LONG_ELAPSED_SHIFT);
    lane->last_stamp = stamp;
}

static void add_malloc(struct lane *lane, uint64_t address, uint64_t stamp) {
    add(lane, RECORD_CODE(TRACE_MALLOC, TRACE_API_MALLOC), address, 32, stamp);
}

static void add_free(struct lane *lane, uint64_t address, uint64_t stamp) {
    add(lane, RECORD_CODE(TRACE_FREE, TRACE_API_FREE), address, 0, stamp);
}

static void add_realloc(struct lane *lane, uint64_t from, uint64_t begun, uint64_t to,
                        uint64_t size, uint64_t stamp) {
    add(lane, RECORD_REALLOC_BEGIN, from, 0, begun);
    add(lane, RECORD_CODE(TRACE_REALLOC, TRACE_API_REALLOC), to, size, stamp);
}

static void add_start(struct lane *lane, uint64_t stamp) {
    add(lane, RECORD_CODE(TRACE_THREAD_START, TRACE_API_THREAD), 0, 0, stamp);
}

static uint64_t begin_stamp; /* of the traces that are built; 0: that of the recording */

static struct builder builder;
static struct spool spool;
static struct trace_writer *writer;

/* Writes the first n_strides and opens all that builds their trace. */
static void begin(uint32_t n_strides) {
    FILE *stream = fopen(spool_path, "wb");
    CHECK(stream != NULL);
    CHECK(fwrite(&file, SPOOL_STRIDE_BYTES, n_strides + 1, stream) == n_strides + 1);
    CHECK(fclose(stream) == 0);
    CHECK(spool_open(&spool, spool_path, message, sizeof message));
    CHECK(trace_create(trace_path, "{}", 4096, &writer, message, sizeof message) == TRACE_OK);
    CHECK(builder_open(&builder, writer, &spool));
}

/* Builds the trace of the first n_strides; its events in words, "m0" for a
 * malloc by thread 0 and "f1" for a free by thread 1. */
static struct builder_counts build(uint32_t n_strides, char *words, size_t words_bytes) {
    static const char letters[] = "mcarf+-";
    struct trace_reader *reader;
    size_t n_events;
    begin(n_strides);
    if (begin_stamp != 0) {
        builder_be_quiet(&builder);
        builder_begin_at(&builder, begin_stamp);
    }
    CHECK(builder_add(&builder, &spool, 0) == TRACE_OK);
    CHECK(builder_finish(&builder) == TRACE_OK);
    CHECK(trace_finish(writer) == TRACE_OK);
    builder_close(&builder);
    spool_close(&spool);
    CHECK(trace_open(trace_path, &reader, message, sizeof message) == TRACE_OK);
    n_events = 0;
    trace_read(reader, events, MOST_EVENTS, &n_events);
    trace_close(reader);
    words[0] = '\0';
    for (size_t i = 0; i < n_events; i++) {
        size_t n = strlen(words);
        snprintf(words + n, words_bytes - n, "%s%c%u", i > 0 ? " " : "", letters[events[i].op],
                 events[i].thread);
    }
    return builder.counts;
}

/* Time 0 is the start of the process, which is before that of its recording. */
TEST(times_count_from_the_start_of_the_process) {
    char words[256];
    add_malloc(new_spool(), 4096, 41000);
    file.header.start_clock_ns = 5000000;
    file.header.life_ns = 2000000;
    build(1, words, sizeof words);
    CHECK(events[0].time_ns == 3040000);
}

static void expect(const char *expected, uint32_t n_strides, uint64_t foreign, uint64_t repaired) {
    char words[256];
    struct builder_counts counts = build(n_strides, words, sizeof words);
    if (strcmp(words, expected) != 0)
        fprintf(stderr, "expected: %s\ngot:      %s\n", expected, words);
    CHECK(strcmp(words, expected) == 0);
    CHECK(counts.foreign_frees == foreign);
    CHECK(counts.repaired_events == repaired);
}

/* ---- what was touched ---- */

/* Number and answer of a large block; the stride of answers is the second one. */
static void add_large(struct lane *lane, uint64_t number, uint64_t address, uint64_t stamp) {
    add_long(lane, RECORD_TOUCH, 0, number);
    add(lane, RECORD_CODE(TRACE_MALLOC, TRACE_API_MALLOC), address, 65536, stamp);
}

static struct touch_stride *add_answers(uint32_t number, uint32_t index) {
    struct touch_stride *answers = (void *)&file.strides[number - 1];
    answers->magic = SPOOL_TOUCH_MAGIC;
    answers->index = index;
    return answers;
}

TEST(answers_belong_to_the_next_allocation) {
    struct lane *lane = new_spool();
    add_answers(2, 0)->touches[3] = 17; /* 16 pages, all of them */
    add_answers(3, 1)->touches[0] = 5;
    add_large(lane, 3, 0x10000, 2000);
    add_malloc(lane, 0x90000, 2100); /* small, and after it */
    add_large(lane, TOUCHES_PER_STRIDE, 0x30000, 2200);
    add_large(lane, 4, 0x50000, 2300); /* was not answered */
    add_long(lane, RECORD_TOUCH, 0, 3);
    add(lane, RECORD_REALLOC_BEGIN, 0x50000, 0, 2400);
    add_long(lane, RECORD_TOUCH, 0, TOUCHES_PER_STRIDE);
    add(lane, RECORD_CODE(TRACE_REALLOC, TRACE_API_REALLOC), 0x50000, 70000, 2500);
    expect("m0 m0 m0 m0 r0", 3, 0, 0);
    const uint32_t expected[] = {17, 0, 5, 0, 5};
    for (size_t i = 0; i < 5; i++)
        CHECK(events[i].touch == expected[i]);
}

TEST(answers_that_cannot_be_are_not_known) {
    struct lane *lane = new_spool();
    add_answers(2, 0)->touches[1] = 18; /* one page more than the block has */
    add_answers(3, 77)->touches[0] = 1; /* more strides than the file has */
    add_large(lane, 1, 0x10000, 2000);
    add_large(lane, TOUCHES_PER_STRIDE * UINT64_C(77), 0x30000, 2100);
    add_large(lane, UINT64_MAX, 0x50000, 2200);
    add_large(lane, TOUCHES_PER_STRIDE + 1, 0x70000, 2300); /* of a stride that is missing */
    expect("m0 m0 m0 m0", 3, 0, 0);
    for (size_t i = 0; i < 4; i++)
        CHECK(events[i].touch == 0);
}

/* ---- the builder ---- */

static struct lane *first, *second;

/* Begins a spool with the lanes of two threads. */
static void begin_with_two(void) {
    first = new_spool();
    second = add_stride(2, 2, 1);
}

TEST(lanes_are_merged_by_stamp) {
    begin_with_two();
    add_malloc(first, 0x1000, 2000);
    add_malloc(first, 0x2000, 4000);
    add_start(second, 2500);
    add_free(second, 0x1000, 3000);
    expect("m0 +1 f1 m0", 2, 0, 0);
}

TEST(a_free_before_its_allocation_is_put_right) {
    begin_with_two();
    add_malloc(first, 0x1000, 5000);
    add_start(second, 2000);
    add_free(second, 0x1000, 4990); /* ten too early */
    expect("+1 m0 f1", 2, 0, 1);
}

TEST(a_free_long_before_any_allocation_is_foreign) {
    begin_with_two();
    add_malloc(first, 0x1000, 5000000);
    add_start(second, 2000);
    add_free(second, 0x1000, 3000);
    expect("+1 m0", 2, 1, 0);
}

/* What an exited thread freed cannot be freed later, when its address is handed out. */
TEST(a_foreign_free_of_an_exited_thread_is_no_inversion) {
    begin_with_two();
    add_malloc(first, 0x1000, 2500);
    add_start(second, 1900);
    add_free(second, 0x1000, 2000);
    second->exit_stamp = 2100;
    expect("+1 -1 m0", 2, 1, 0);
}

TEST(a_foreign_free_of_the_same_thread_is_no_inversion) {
    first = new_spool();
    add_free(first, 0x1000, 2000);
    add_malloc(first, 0x1000, 2010);
    expect("m0", 1, 1, 0);
}

TEST(an_address_handed_out_before_its_free_is_put_right) {
    begin_with_two();
    add_malloc(first, 0x1000, 2000);
    add_free(first, 0x1000, 3000); /* ten too late */
    add_start(second, 2000);
    add_malloc(second, 0x1000, 2990);
    add_free(second, 0x1000, 900000);
    expect("m0 +1 f1 m1 f1", 2, 0, 1);
}

TEST(a_realloc_gives_its_address_up_at_its_beginning) {
    begin_with_two();
    add_malloc(first, 0x1000, 2000);
    add_realloc(first, 0x1000, 3000, 0x9000, 64, 5000);
    add_start(second, 2000);
    add_malloc(second, 0x1000, 4000); /* another thread gets it in between */
    add_free(second, 0x1000, 6000);
    add_free(second, 0x9000, 7000);
    expect("m0 +1 m1 r0 f1 f1", 2, 0, 0);
}

TEST(a_failed_realloc_changes_nothing) {
    first = new_spool();
    add_malloc(first, 0x1000, 2000);
    add_realloc(first, 0x1000, 3000, 0, 64, 4000);
    add_free(first, 0x1000, 5000);
    expect("m0 f0", 1, 0, 0);
}

TEST(a_lane_is_handed_from_thread_to_thread) {
    add_malloc(new_spool(), 0x1000, 2000);
    second = add_stride(2, 2, 1);
    add_start(second, 3000);
    add_free(second, 0x1000, 4000);
    add(second, RECORD_CODE(TRACE_THREAD_EXIT, TRACE_API_THREAD), 0, 0, 5000);
    add_start(second, 6000);
    add_malloc(second, 0x2000, 7000);
    second->exit_stamp = 8000; /* no thread took the lane over: the exit is added */
    expect("m0 +1 f1 -1 +1 m1 -1", 2, 0, 0);
}

TEST(archived_buffers_come_before_the_home) {
    (void)new_spool();
    struct lane *home = add_stride(1, 1, 2);
    struct lane *archived = add_stride(2, 1, 1);
    add_free(home, 0x1000, 3000);
    add_malloc(archived, 0x1000, 2000);
    expect("m0 f0", 2, 0, 0);
}

TEST(a_buffer_that_was_archived_but_not_emptied_counts_once) {
    add_malloc(new_spool(), 0x1000, 2000);
    add_malloc(add_stride(2, 1, 1), 0x1000, 2000);
    expect("m0", 2, 0, 0);
}

TEST(nothing_after_the_stop_is_taken) {
    first = new_spool();
    add_malloc(first, 0x1000, 2000);
    add_malloc(first, 0x2000, 3000);
    file.header.stop_stamp = 2500;
    expect("m0", 1, 0, 0);
}

TEST(more_threads_than_a_trace_has_are_named) {
    (void)new_spool();
    add_start(add_stride(2, 2, 1), 2000);
    begin(2);
    builder.n_threads = TRACE_MAX_THREADS;
    const char *found = builder_message(builder_add(&builder, &spool, 0));
    CHECK(strstr(found, "more than 65536 threads at once") != NULL);
    trace_abandon(writer);
    builder_close(&builder);
    spool_close(&spool);
}

TEST(giant_sizes_and_long_pauses_survive) {
    struct spool_event event;
    char words[64];
    struct lane *lane = new_spool();
    add_long(lane, RECORD_CLOCK, 0, UINT64_C(1) << 50);
    add_long(lane, RECORD_SIZE, 0, UINT64_C(1) << 40);
    add_long(lane, RECORD_CODE(TRACE_MALLOC, TRACE_API_MALLOC), 0x7fff12345678, 0);
    build(1, words, sizeof words);
    CHECK(strcmp(words, "m0") == 0);
    CHECK(spool_open(&spool, spool_path, message, sizeof message));
    CHECK(spool_read(&spool, &event, 1) == 1);
    CHECK(event.stamp == UINT64_C(1) << 50 && event.size == UINT64_C(1) << 40);
    CHECK(event.address == 0x7fff12345678);
    CHECK(spool_read(&spool, &event, 1) == 0);
    spool_close(&spool);
}

/* A damaged stride: the lane that it says to be of would lie far behind the file. */
TEST(a_home_outside_of_the_file_is_no_lane) {
    add_malloc(new_spool(), 0x1000, 2000);
    (void)add_stride(2, UINT32_C(1) << 20, 1);
    expect("m0", 2, 0, 0);
}

/* ---- traces that begin later ---- */

static void expect_from(uint64_t stamp, const char *expected, uint32_t n_strides) {
    begin_stamp = stamp;
    expect(expected, n_strides, 0, 0);
    begin_stamp = 0;
}

TEST(a_later_trace_begins_with_the_blocks_that_live) {
    first = new_spool();
    add_malloc(first, 0x1000, 2000);
    add_malloc(first, 0x2000, 3000);
    add_malloc(first, 0x3000, 4000);
    add_free(first, 0x1000, 5000);
    add_malloc(first, 0x4000, 6000); /* into the slot of the first */
    add_free(first, 0x2000, 55000);
    add_malloc(first, 0x5000, 65000);
    expect_from(45000, "m0 m0 m0 f0 m0", 1);
    CHECK(events[0].time_ns == 0 && events[2].time_ns == 0);
    CHECK(events[3].time_ns == 10000 && events[3].slot == 0); /* 0x2000 is the oldest */
    CHECK(events[4].time_ns == 20000 && events[4].slot == 0);
}

TEST(a_later_trace_keeps_size_touch_and_alignment) {
    struct lane *lane = new_spool();
    add_answers(2, 0)->touches[3] = 5;
    add_large(lane, 3, 0x10000, 2000);
    add(lane, RECORD_CODE(TRACE_ALIGNED, TRACE_API_MEMALIGN), 0x40000, 96 | UINT64_C(12) << 32,
        2100);
    add_malloc(lane, 0x50000, 2200);
    add_realloc(lane, 0x50000, 2300, 0x60000, 70000, 2400);
    add_malloc(lane, 0x70000, 9000);
    expect_from(5000, "m0 a0 m0 m0", 2);
    CHECK(events[0].size == 65536 && events[0].touch == 5);
    CHECK(events[1].size == 96 && events[1].align_log2 == 12);
    CHECK(events[2].size == 70000 && events[2].api == TRACE_API_REALLOC);
}

TEST(a_later_trace_knows_the_threads_that_run) {
    first = new_spool();
    struct lane *ended = add_stride(2, 2, 1);
    struct lane *running = add_stride(3, 3, 1);
    add_start(ended, 2000);
    add_malloc(ended, 0x1000, 2100);
    add(ended, RECORD_CODE(TRACE_THREAD_EXIT, TRACE_API_THREAD), 0, 0, 2200);
    add_start(running, 2300);
    add_malloc(running, 0x2000, 2400);
    add_malloc(first, 0x3000, 2500);
    add_start(ended, 7000); /* a new thread in the lane of the one that ended */
    add_free(ended, 0x2000, 7100);
    add_free(running, 0x1000, 8000);
    add_free(first, 0x3000, 9000);
    expect_from(5000, "+1 m0 m1 m0 +2 f2 f1 f0", 3);
}

TEST(a_realloc_across_the_beginning_keeps_its_block) {
    struct lane *lane = new_spool();
    add_malloc(lane, 0x1000, 2000);
    add_realloc(lane, 0x1000, 4990, 0x9000, 64, 5010);
    add_free(lane, 0x9000, 6000);
    expect_from(5000, "m0 r0 f0", 1);
}

TEST(without_an_event_after_its_beginning_a_trace_is_empty) {
    add_malloc(new_spool(), 0x1000, 2000);
    expect_from(5000, "", 1);
}

/* ---- the map ---- */

TEST(the_map_agrees_with_an_array) {
    enum {
        N_ADDRESSES = 50000,
        N_STEPS = 1000000
    };
    static uint32_t slots[N_ADDRESSES]; /* slot + 1; 0: not in the map */
    struct address_map map;
    uint64_t random = 88172645463325252u;
    CHECK(address_map_open(&map));
    for (uint32_t step = 0; step < N_STEPS; step++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint32_t i = (uint32_t)(random % N_ADDRESSES);
        uint64_t address = UINT64_C(0x7f0000000000) + 48 * (uint64_t)i;
        uint32_t slot;
        CHECK(address_map_find(&map, address, &slot) == (slots[i] != 0));
        if (slots[i] == 0) {
            CHECK(address_map_add(&map, address, step));
            slots[i] = step + 1;
        } else {
            CHECK(address_map_remove(&map, address, &slot) && slot == slots[i] - 1);
            slots[i] = 0;
        }
    }
    address_map_close(&map);
}

int main(void) {
    snprintf(spool_path, sizeof spool_path, "test_recorder.%d.spool", (int)getpid());
    snprintf(trace_path, sizeof trace_path, "test_recorder.%d.trace", (int)getpid());
    run_tests();
    unlink(spool_path);
    unlink(trace_path);
    puts("passed");
    return 0;
}
