/* test_slack.c - slabs of a heap that had more in use before are filled again early, so that others
 * become empty; those of one that has not wait for merge_percent, those of larger blocks for half
 * as much again, but only while others wait.
 */
#include "base/options.h"
#include "child.h"
#include "exgen.h"
#include "heap/heap.h"
#include "test.h"

enum {
    N_BLOCKS = 40000,
    BYTES = 512, /* 128 to a slab */
    N_OTHERS = 600,
    OTHER_BYTES = 256, /* the same */
    LARGER_BYTES = 512,
    QUARTER = 32
};

#define CONF "purge_delay:60000,merge_percent:25"

static char *blocks[N_BLOCKS];
static char *others[N_OTHERS];

static void take_all(void) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        EXPECT((blocks[i] = exgen_malloc(BYTES)) != NULL);
}

/* The slab that was filled with the last of the others: of the slabs between, one may be shorter,
 * where the head of its superblock lies. */
static const struct slab *last_full_slab(void) {
    for (size_t i = N_OTHERS; i-- > 0;) {
        const struct slab *slab = slab_of((uintptr_t)others[i]);
        if (slab->state == SLAB_ASLEEP && slab_used(slab) == 4 * QUARTER)
            return slab;
    }
    return NULL;
}

/* Those of `taken` that lie in a full slab are freed until it is among those that are used next:
 * how many. */
static uint64_t frees_until_awake(const struct slab *slab, char *const *taken, size_t n_taken) {
    uint64_t n = 0;
    for (size_t i = 0; i < n_taken && slab->state == SLAB_ASLEEP; i++)
        if (slab_of((uintptr_t)taken[i]) == slab) {
            exgen_free(taken[i]);
            n++;
        }
    EXPECT(exgen_validate_heap());
    return n;
}

static uint64_t frees_until_used(size_t bytes) {
    for (size_t i = 0; i < N_OTHERS; i++)
        EXPECT((others[i] = exgen_malloc(bytes)) != NULL);
    const struct slab *slab = last_full_slab();
    EXPECT(slab != NULL);
    return frees_until_awake(slab, others, N_OTHERS);
}

static uint64_t in_a_heap_that_grew(void) {
    take_all();
    return frees_until_used(OTHER_BYTES);
}

/* Two of three blocks are freed: no slab is empty. */
static uint64_t in_a_heap_that_shrank(void) {
    take_all();
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (i % 3 != 0)
            exgen_free(blocks[i]);
    return frees_until_used(OTHER_BYTES);
}

/* ... and are in use again. */
static uint64_t in_a_heap_that_grew_again(void) {
    in_a_heap_that_shrank();
    take_all();
    for (size_t i = 0; i < N_OTHERS; i++)
        EXPECT((others[i] = exgen_malloc(OTHER_BYTES)) != NULL);
    return frees_until_used(OTHER_BYTES);
}

static uint64_t of_larger_blocks(void) {
    take_all();
    return frees_until_used(LARGER_BYTES);
}

/* One block is free in each of some slabs, of which the last is filled again. */
static uint64_t of_larger_blocks_while_others_wait(void) {
    enum {
        N_SLABS = 4,
        APART = N_BLOCKS / 8
    };
    take_all();
    size_t last = N_SLABS * APART;
    while (slab_used(slab_of((uintptr_t)blocks[last])) != 4 * QUARTER)
        last++; /* one of those that are shorter */
    const struct slab *slab = slab_of((uintptr_t)blocks[last]);
    for (size_t i = 1; i < N_SLABS; i++)
        exgen_free(blocks[i * APART]);
    exgen_free(blocks[last]);
    do
        EXPECT((blocks[last] = exgen_malloc(BYTES)) != NULL);
    while (slab_of((uintptr_t)blocks[last]) != slab);
    EXPECT(exgen_malloc(BYTES) != NULL); /* of the next one */
    EXPECT(slab->state == SLAB_ASLEEP && slab_used(slab) == 4 * QUARTER);
    return frees_until_awake(slab, blocks, N_BLOCKS);
}

/* Two of 128 are free in each slab, which is used again for them: that alone is no slack, in which
 * pages go back early. */
static uint64_t is_slack_with_few_free(void) {
    take_all();
    for (size_t i = 0; i < N_BLOCKS; i += 2 * QUARTER)
        exgen_free(blocks[i]);
    for (size_t i = 0; i < N_OTHERS; i++)
        EXPECT((others[i] = exgen_malloc(OTHER_BYTES)) != NULL);
    EXPECT(exgen_validate_heap());
    return local.heap->is_slack;
}

/* One slab of many that wait has no block in use: it is the last to be used, and found at once. */
static uint64_t blocks_used_before_an_empty_slab(void) {
    uint64_t n = 0;
    take_all();
    const struct slab *empty = slab_of((uintptr_t)blocks[N_BLOCKS / 2]);
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (i % QUARTER == 0 || slab_of((uintptr_t)blocks[i]) == empty)
            exgen_free(blocks[i]);
    EXPECT(empty->is_empty && exgen_validate_heap());
    while (slab_of((uintptr_t)exgen_malloc(BYTES)) != empty)
        n++;
    return n;
}

static void expect_frees(scenario part, uint64_t n) {
    EXPECT(run_well(part, CONF) == n);
}

int main(void) {
    expect_frees(in_a_heap_that_grew, QUARTER);
    expect_frees(in_a_heap_that_shrank, QUARTER / 4);
    expect_frees(in_a_heap_that_grew_again, QUARTER);
    expect_frees(of_larger_blocks, 1);
    expect_frees(of_larger_blocks_while_others_wait, QUARTER + QUARTER / 2);
    expect_frees(is_slack_with_few_free, 0);
    EXPECT(run_well(blocks_used_before_an_empty_slab, CONF) >=
           N_BLOCKS / QUARTER - 4 * QUARTER / 8);
    return test_passed();
}
