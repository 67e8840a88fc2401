/* test_sparse.c - slabs with few blocks in use give back the pages between these, and are whole
 * when they are used again.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/options.h"
#include "child.h"
#include "exgen.h"
#include "heap/heap.h"
#include "heap/supply.h"
#include "test.h"

enum {
    N_BLOCKS = 5000,
    KEPT = 16, /* every so many-th block stays */
    N_LARGER = 200,
    LARGER = 60000,
    PAGE_BYTES = 4096
};

static unsigned char *blocks[N_BLOCKS];
static unsigned char *larger[N_LARGER];

static void take(size_t i, size_t bytes) {
    blocks[i] = memset(exgen_malloc(bytes), (int)(i % 251), bytes);
}

static void check(size_t i, size_t bytes) {
    EXPECT(blocks[i][0] == i % 251 && blocks[i][bytes / 2] == i % 251 &&
           blocks[i][bytes - 1] == i % 251);
}

static void give(size_t i, size_t bytes) {
    check(i, bytes);
    exgen_free(blocks[i]);
    blocks[i] = NULL;
}

static void make_sparse(size_t bytes) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        take(i, bytes);
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (i % KEPT != 0)
            give(i, bytes);
}

/* The heap grows, so that it looks at its slabs. */
static void grow(void) {
    for (size_t i = 0; i < N_LARGER; i++)
        larger[i] = exgen_malloc(LARGER);
}

static void shrink(void) {
    for (size_t i = 0; i < N_LARGER; i++)
        exgen_free(larger[i]);
}

static bool has_absent(const struct slab *slab) {
    return slab->has_absent;
}

static bool was_looked_at(const struct slab *slab) {
    return slab->is_old;
}

static size_t n_slabs(bool (*is_counted)(const struct slab *slab)) {
    size_t n = 0;
    for (const struct superblock *sb = local.heap->superblocks; sb != NULL; sb = sb->next)
        for (size_t i = sb->first_unit; i < sb->n_units; i++)
            n += is_counted(&sb->slab[i]);
    return n;
}

static size_t n_slabs_with_absent(void) {
    return n_slabs(has_absent);
}

static void use_again(size_t bytes) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (blocks[i] == NULL)
            take(i, bytes);
    for (size_t i = 0; i < N_BLOCKS; i++)
        give(i, bytes);
    shrink();
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
}

static size_t block_bytes = 1000;

static uint64_t pages_between_blocks_go(void) {
    make_sparse(block_bytes);
    grow();
    EXPECT(exgen_validate_heap());
    EXPECT((n_slabs_with_absent() > 0) == (block_bytes >= 400));
    use_again(block_bytes);
    EXPECT(n_slabs_with_absent() == 0);
    return 0;
}

static void (*give_back)(void) = grow;

/* Three of four pages lie between two blocks of 1000 bytes that stay. */
static uint64_t most_of_a_sparse_slab_is_not_resident(void) {
    make_sparse(1000);
    give_back();
    const unsigned char *start =
        (const unsigned char *)((uintptr_t)blocks[N_BLOCKS / 4 / KEPT * KEPT] & layout.base_mask);
    start += 8 * UNIT_BYTES;
    EXPECT(test_resident_pages(start, 128 * PAGE_BYTES) < 64);
    use_again(1000);
    return 0;
}

static uint64_t blocks_freed_meanwhile_are_used_again(void) {
    make_sparse(1000);
    grow();
    for (size_t i = 0; i < N_BLOCKS; i += 2 * KEPT)
        give(i, 1000);
    EXPECT(exgen_validate_heap());
    use_again(1000);
    return 0;
}

/* More than a quarter of the heap waits to be used, which is noted when a slab is used next.  Then
 * every `n`-th block stays.  Returns the slabs whose pages went at once. */
static size_t thin_a_slack_heap(size_t bytes, size_t n) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        take(i, i < N_BLOCKS / 2 ? 1000 : bytes);
    for (size_t i = 0; i < N_BLOCKS / 2; i += 2)
        give(i, 1000);
    for (size_t i = 0; i < N_LARGER; i++)
        larger[i] = exgen_malloc(100);
    EXPECT(n_slabs_with_absent() == 0);
    for (size_t i = N_BLOCKS / 2; i < N_BLOCKS; i++)
        if (i % n != 0)
            give(i, bytes);
    EXPECT(exgen_validate_heap());
    return n_slabs_with_absent();
}

static uint64_t pages_of_a_slack_heap_go_at_once(void) {
    EXPECT(thin_a_slack_heap(1000, KEPT) > N_BLOCKS / 2 / 64 / 2);
    return 0;
}

static uint64_t pages_of_small_blocks_wait_for_a_look(void) {
    EXPECT(thin_a_slack_heap(64, 8 * KEPT) == 0);
    return 0;
}

static void *work(void *argument) {
    make_sparse(1000);
    grow();
    return argument;
}

static uint64_t sparse_slabs_of_a_thread_that_ended_are_used(void) {
    run_thread(work, NULL);
    use_again(1000);
    return 0;
}

static uint64_t nothing_is_given_back_where_it_must_not(void) {
    make_sparse(1000);
    grow();
    EXPECT(n_slabs_with_absent() == 0);
    EXPECT(n_slabs(was_looked_at) == 0);
    use_again(1000);
    return 0;
}

/* What walks over the superblocks goes on behind one that leaves the heap. */
static uint64_t cursors_pass_a_superblock_that_leaves(void) {
    grow();
    struct heap *heap = local.heap;
    struct superblock **const cursors[] = {&heap->purge_next,  &heap->visit_next,
                                           &heap->shed_next,   &heap->fall_next,
                                           &heap->sparse_next, &heap->look_sparse};
    struct superblock *leaving = heap->superblocks;
    struct superblock *next = leaving->next;
    EXPECT(next != NULL);
    for (size_t i = 0; i < sizeof cursors / sizeof *cursors; i++)
        *cursors[i] = leaving;
    supply_unlink(heap, leaving);
    for (size_t i = 0; i < sizeof cursors / sizeof *cursors; i++)
        EXPECT(*cursors[i] == next);
    supply_link(heap, leaving);
    shrink();
    EXPECT(exgen_validate_heap());
    return 0;
}

static uint64_t double_free_on_an_absent_page(void) {
    make_sparse(1000);
    unsigned char *freed = NULL;
    for (size_t i = 0; i < N_BLOCKS; i++)
        larger[0] = blocks[i] != NULL && i / KEPT == N_BLOCKS / 4 / KEPT ? blocks[i] : larger[0];
    freed = larger[0] + (PAGE_BYTES + 1000 - 1) / 1008 * 1008;
    grow();
    exgen_free(freed);
    use_again(1000);
    return 0;
}

int main(void) {
    static const size_t sizes[] = {100, 400, 1032, 2048, 3000};
    static const char *const confs[] = {"", "slab_order:fifo,block_order:address",
                                        "purge_how:unmap,slab_units_max:16", "check:true"};
    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        run_well(pages_between_blocks_go, confs[i]);
        run_well(blocks_freed_meanwhile_are_used_again, confs[i]);
        run_well(sparse_slabs_of_a_thread_that_ended_are_used, confs[i]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        block_bytes = sizes[i];
        run_well(pages_between_blocks_go, "");
    }
    run_well(pages_of_a_slack_heap_go_at_once, "purge_delay:60000");
    run_well(pages_of_small_blocks_wait_for_a_look, "purge_delay:60000");
    run_well(most_of_a_sparse_slab_is_not_resident, "");
    give_back = exgen_purge;
    run_well(most_of_a_sparse_slab_is_not_resident, "");
    run_well(nothing_is_given_back_where_it_must_not, "purge_how:never");
    run_well(nothing_is_given_back_where_it_must_not, "junk:true");
    run_well(cursors_pass_a_superblock_that_leaves, "");
    struct outcome o = run_in_child(double_free_on_an_absent_page, "");
    fprintf(stderr, "%s", o.output);
    EXPECT(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGABRT);
    EXPECT(strstr(o.output, "double free") != NULL);
    return test_passed();
}
