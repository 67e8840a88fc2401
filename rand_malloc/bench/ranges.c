/* ranges.c - one workload for each range of sizes above the smallest, and for growth, alignment
 * and zeroed memory.
 *
 * Blocks stay with their thread.  Each is written at its first and its last byte, and not in
 * between: a loop over the pages of a block takes longer than any allocator.  An operation is one
 * malloc and one free; one realloc where blocks grow.
 */
#include "workloads.h"

enum {
    KIB = 1024,
    PAIR_BYTES = 8 * KIB,
    BATCH_BYTES = 128 * KIB,
    BATCH_BLOCKS = 16,
    RANGE_BATCH = 32, /* operations between two looks at the phase */
    GROW_FIRST = KIB,
    GROW_STEP = KIB,
    GROW_LAST = 1024 * KIB,
    ALIGNED_BYTES = 64 * KIB,
    ALIGNED_BLOCKS = 8,
    ALIGNMENT = 2048 * KIB,
    ZEROED_BYTES = 1024 * KIB
};

static void write_ends(void *block, size_t size) {
    volatile unsigned char *bytes = block;
    bytes[0] = 1;
    bytes[size - 1] = 1;
}

/* --- one size --- */

void run_pairs(struct worker *worker) {
    while (goes_on(worker)) {
        for (int i = 0; i < RANGE_BATCH; i++) {
            void *block = take(worker, PAIR_BYTES);
            write_ends(block, PAIR_BYTES);
            give(worker, block);
        }
        did(worker, RANGE_BATCH);
    }
}

void run_batches(struct worker *worker) {
    void *blocks[BATCH_BLOCKS];
    while (goes_on(worker)) {
        for (int i = 0; i < BATCH_BLOCKS; i++) {
            blocks[i] = take(worker, BATCH_BYTES);
            write_ends(blocks[i], BATCH_BYTES);
        }
        for (int i = 0; i < BATCH_BLOCKS; i++)
            give(worker, blocks[i]);
        did(worker, BATCH_BLOCKS);
    }
}

/* --- a range of sizes: slots in random order, one replaced after the other; about 20 MB --- */

static const struct range *range_of(const struct worker *worker) {
    return &worker->bench->settings->workload->range;
}

static void *take_written(struct worker *worker, const struct range *range) {
    size_t size = draw_between(worker, range->least, range->most);
    void *block = take(worker, size);
    write_ends(block, size);
    return block;
}

void fill_range(struct worker *worker) {
    const struct range *range = range_of(worker);
    worker->slots = own_memory(range->n_slots * sizeof *worker->slots);
    for (size_t i = 0; i < range->n_slots; i++)
        worker->slots[i] = take_written(worker, range);
}

void run_range(struct worker *worker) {
    const struct range *range = range_of(worker);
    while (goes_on(worker)) {
        for (int i = 0; i < RANGE_BATCH; i++) {
            size_t at = draw_between(worker, 0, range->n_slots - 1);
            give(worker, worker->slots[at]);
            worker->slots[at] = take_written(worker, range);
        }
        did(worker, RANGE_BATCH);
    }
    for (size_t i = 0; i < range->n_slots; i++)
        give(worker, worker->slots[i]);
}

/* --- blocks that grow --- */

static size_t next_by_step(size_t size) {
    return size + GROW_STEP;
}

static size_t next_by_half(size_t size) {
    return size + size / 2;
}

static void grow_blocks(struct worker *worker, size_t (*next)(size_t)) {
    while (goes_on(worker)) {
        void *block = NULL;
        for (size_t size = GROW_FIRST; size <= GROW_LAST && goes_on(worker); size = next(size)) {
            block = retake(worker, block, size);
            write_ends(block, size);
            did(worker, 1);
        }
        give(worker, block);
    }
}

void run_grow_step(struct worker *worker) {
    grow_blocks(worker, next_by_step);
}

void run_grow_half(struct worker *worker) {
    grow_blocks(worker, next_by_half);
}

/* --- alignment, zeros --- */

void run_aligned(struct worker *worker) {
    void *blocks[ALIGNED_BLOCKS];
    while (goes_on(worker)) {
        for (int i = 0; i < ALIGNED_BLOCKS; i++) {
            blocks[i] = take_aligned(worker, ALIGNMENT, ALIGNED_BYTES);
            if ((uintptr_t)blocks[i] % ALIGNMENT != 0)
                fail("posix_memalign", "a block does not lie where it was asked for");
            write_ends(blocks[i], ALIGNED_BYTES);
        }
        for (int i = 0; i < ALIGNED_BLOCKS; i++)
            give(worker, blocks[i]);
        did(worker, ALIGNED_BLOCKS);
    }
}

void run_zeroed(struct worker *worker) {
    while (goes_on(worker)) {
        for (int i = 0; i < RANGE_BATCH; i++) {
            volatile unsigned char *block = take_zeroed(worker, ZEROED_BYTES);
            size_t at = draw_between(worker, 0, ZEROED_BYTES - 1);
            if (block[at] != 0 || block[ZEROED_BYTES - 1] != 0)
                fail("calloc", "memory is not zero");
            write_ends((void *)block, ZEROED_BYTES);
            give(worker, (void *)block);
        }
        did(worker, RANGE_BATCH);
    }
}
