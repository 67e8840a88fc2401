/* alone.c - measurements of memory in one thread, without a clock in the loop. */
#include "crew.h"
#include "meter.h"
#include "workloads.h"

#include <malloc.h>
#include <time.h>

enum {
    OVERHEAD_BYTES = 16 << 20, /* asked for in all */
    OVERHEAD_LEAST_BLOCKS = 16,
    OVERHEAD_MOST_BLOCKS = 1 << 20,
    MEMORY_BYTES = 64 << 20, /* live at the height */
    MEMORY_STEP = 1 << 20,   /* live bytes between two samples */
    MEMORY_SLOTS = 1 << 20,
    REST_STEPS = 50,
    REST_STEP_NS = 20000000
};

/* Resident bytes per block: what many of them add, every page touched. */
void measure_overhead(struct bench *bench) {
    struct worker *worker = &bench->workers[0];
    size_t size = bench->settings->size;
    size_t n = OVERHEAD_BYTES / size;
    n = n < OVERHEAD_LEAST_BLOCKS ? OVERHEAD_LEAST_BLOCKS : n;
    n = n > OVERHEAD_MOST_BLOCKS ? OVERHEAD_MOST_BLOCKS : n;
    void **blocks = own_memory(n * sizeof *blocks);
    for (size_t i = 0; i < n; i++)
        blocks[i] = blocks; /* bring the list into memory first */
    uint64_t before = meter_rss_bytes();
    for (size_t i = 0; i < n; i++) {
        blocks[i] = take(worker, size);
        touch(blocks[i], size);
    }
    uint64_t after = meter_rss_bytes();
    bench->usable_bytes = malloc_usable_size(blocks[n - 1]);
    bench->resident_bytes = after > before ? (after - before) / n : 0;
    for (size_t i = 0; i < n; i++)
        give(worker, blocks[i]);
    did(worker, n);
}

/* The blocks of the memory workload, in no order. */
struct pile {
    struct bench *bench;
    void **blocks;
    size_t n;
    uint64_t live_bytes;
    uint64_t sampled_bytes; /* live bytes at the last sample */
    uint64_t start_ns;
};

static void sample(struct pile *pile) {
    curve_add(&pile->bench->curve, meter_clock_ns() - pile->start_ns, pile->live_bytes);
    pile->sampled_bytes = pile->live_bytes;
}

static void sample_if_due(struct pile *pile) {
    uint64_t low = pile->live_bytes, high = pile->sampled_bytes;
    if (low > high) {
        low = pile->sampled_bytes;
        high = pile->live_bytes;
    }
    if (high - low >= MEMORY_STEP)
        sample(pile);
}

static void grow(struct pile *pile, uint64_t live_bytes, size_t most) {
    struct worker *worker = &pile->bench->workers[0];
    while (pile->live_bytes < live_bytes && pile->n < MEMORY_SLOTS) {
        size_t limit = draw_between(worker, 0, 9) == 0 ? 16 * most : most;
        size_t size = draw_between(worker, sizeof(struct head), limit);
        pile->blocks[pile->n++] = take_marked(worker, size);
        pile->live_bytes += size;
        did(worker, 1);
        sample_if_due(pile);
    }
}

static void shrink(struct pile *pile, uint64_t live_bytes) {
    struct worker *worker = &pile->bench->workers[0];
    while (pile->live_bytes > live_bytes && pile->n > 0) {
        size_t at = draw_between(worker, 0, pile->n - 1);
        pile->live_bytes -= give_marked(worker, pile->blocks[at]);
        pile->blocks[at] = pile->blocks[--pile->n];
        sample_if_due(pile);
    }
}

/* An idle program that allocates now and then, as most do. */
static void rest(struct pile *pile) {
    struct worker *worker = &pile->bench->workers[0];
    const struct timespec step = {0, REST_STEP_NS};
    for (int i = 0; i < REST_STEPS; i++) {
        (void)nanosleep(&step, NULL);
        (void)give_marked(worker, take_marked(worker, 100));
        sample(pile);
    }
}

void measure_memory(struct bench *bench) {
    struct pile pile = {.bench = bench,
                        .blocks = own_memory(MEMORY_SLOTS * sizeof(void *)),
                        .start_ns = meter_clock_ns()};
    curve_open(&bench->curve, 1000);
    sample(&pile);
    grow(&pile, MEMORY_BYTES, 512);
    shrink(&pile, MEMORY_BYTES / 2);
    grow(&pile, MEMORY_BYTES, 2048);
    shrink(&pile, MEMORY_BYTES / 10);
    rest(&pile);
    shrink(&pile, 0);
    rest(&pile);
}
