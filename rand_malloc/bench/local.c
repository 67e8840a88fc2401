/* local.c - workloads whose blocks stay with the thread that allocated them.
 *
 * Sources: scalability is threadtest, cache-thrash and cache-scratch are active and passive false
 * sharing, all of Berger et al., "Hoard: A scalable memory allocator for multithreaded
 * applications", ASPLOS 2000.  An operation is one malloc and one free.
 */
#include "workloads.h"

enum {
    SIZES_MOST_BLOCKS = 128,
    SIZES_MOST_BYTES = 2 << 20,
    SCALABILITY_BLOCKS = 1000,
    SCALABILITY_BYTES = 64,
    SHARED_BYTES = 8,
    SHARED_WRITES = 100,
    SHARED_BATCH = 64,
    RING_SLOTS = 100000,      /* of a thread */
    RING_MOST_SLOTS = 400000, /* of all, or 128 threads would need 30 GB */
    RING_BATCH = 64
};

void run_sizes(struct worker *worker) {
    size_t size = worker->bench->settings->size;
    size_t n = SIZES_MOST_BYTES / size;
    void *blocks[SIZES_MOST_BLOCKS];
    n = n < 1 ? 1 : n > SIZES_MOST_BLOCKS ? SIZES_MOST_BLOCKS : n;
    while (goes_on(worker)) {
        for (size_t i = 0; i < n; i++) {
            blocks[i] = take(worker, size);
            touch(blocks[i], size);
        }
        for (size_t i = 0; i < n; i++)
            give(worker, blocks[i]);
        did(worker, n);
    }
}

void run_scalability(struct worker *worker) {
    void *blocks[SCALABILITY_BLOCKS];
    while (goes_on(worker)) {
        for (size_t i = 0; i < SCALABILITY_BLOCKS; i++) {
            blocks[i] = take(worker, SCALABILITY_BYTES);
            *(volatile char *)blocks[i] = 1;
        }
        for (size_t i = 0; i < SCALABILITY_BLOCKS; i++)
            give(worker, blocks[i]);
        did(worker, SCALABILITY_BLOCKS);
    }
}

static void write_often(void *block) {
    volatile unsigned char *bytes = block;
    for (size_t i = 0; i < SHARED_WRITES; i++)
        bytes[i % SHARED_BYTES]++;
}

void run_cache_thrash(struct worker *worker) {
    while (goes_on(worker)) {
        for (int i = 0; i < SHARED_BATCH; i++) {
            void *block = take(worker, SHARED_BYTES);
            write_often(block);
            give(worker, block);
        }
        did(worker, SHARED_BATCH);
    }
}

void prepare_cache_scratch(struct bench *bench) {
    void **blocks = own_memory(bench->settings->threads * sizeof *blocks);
    for (uint32_t i = 0; i < bench->settings->threads; i++)
        blocks[i] = take(&bench->workers[0], SHARED_BYTES);
    bench->shared = blocks;
}

void run_cache_scratch(struct worker *worker) {
    void *block = ((void **)worker->bench->shared)[worker->index];
    while (goes_on(worker)) {
        for (int i = 0; i < SHARED_BATCH; i++) {
            write_often(block);
            give(worker, block);
            block = take(worker, SHARED_BYTES);
        }
        did(worker, SHARED_BATCH);
    }
    give(worker, block);
}

/* 60 % small, 30 % middle, 10 % large. */
static size_t ring_size(struct worker *worker) {
    size_t kind = draw_between(worker, 0, 9);
    if (kind < 6)
        return draw_between(worker, 16, 256);
    if (kind < 9)
        return draw_between(worker, 512, 2048);
    return draw_between(worker, 4096, 32768);
}

static size_t ring_slots(const struct worker *worker) {
    size_t n = RING_MOST_SLOTS / worker->bench->settings->threads;
    return n > RING_SLOTS ? RING_SLOTS : n;
}

void fill_ring(struct worker *worker) {
    size_t n = ring_slots(worker);
    worker->slots = own_memory(n * sizeof *worker->slots);
    for (size_t i = 0; i < n; i++)
        worker->slots[i] = take_marked(worker, ring_size(worker));
}

void run_ring(struct worker *worker) {
    size_t n = ring_slots(worker), at = 0;
    while (goes_on(worker)) {
        for (int i = 0; i < RING_BATCH; i++) {
            (void)give_marked(worker, worker->slots[at]);
            worker->slots[at] = take_marked(worker, ring_size(worker));
            at = at + 1 < n ? at + 1 : 0;
        }
        did(worker, RING_BATCH);
    }
    for (size_t i = 0; i < n; i++)
        (void)give_marked(worker, worker->slots[i]);
}
