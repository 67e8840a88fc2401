/* test_kept.c - freed blocks above the size classes are found again: by length in the thread's
 * heap, by address and alignment among large blocks; and a calloc of such a block is zero.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exgen.h"
#include "heap/kept.h"
#include "heap/purge.h"
#include "test.h"
#include "thread/housekeeping.h"

enum {
    N_BLOCKS = 1000,
    N_BEFORE = 20,
    TRAY_BYTES = 20000,
    OTHER_TRAY_BYTES = 9000,
    MORE_TRAY_BYTES = 28000,
    CUT_BYTES = 13 * 1024,
    STEP_BYTES = 1024,
    RUN_BYTES = 100000,
    LARGE_BYTES = 1048576,
    HUGE_ALIGNMENT = 2097152,
    PAGE_BYTES = 4096
};

static char *blocks[N_BLOCKS];

static void allocate_all(size_t bytes) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = exgen_malloc(bytes);
}

static void free_every(size_t first, size_t step) {
    for (size_t i = first; i < N_BLOCKS; i += step)
        exgen_free(blocks[i]);
}

static void next_request_of_the_length_gets_the_block(size_t size) {
    char *p = exgen_malloc(size);
    char *q = exgen_malloc(size);
    exgen_free(p);
    exgen_free(q);
    EXPECT(exgen_validate_heap());
    EXPECT(exgen_malloc(size) == q);
    EXPECT(exgen_malloc(size) == p);
    exgen_free(p);
    exgen_free(q);
    exgen_purge();
    EXPECT(kept_bytes(local.heap) == 0);
    EXPECT(stats().n_blocks == 0);
}

static void what_is_written_into_freed_blocks_does_no_harm(void) {
    char *p = exgen_malloc(RUN_BYTES);
    char *q = exgen_malloc(RUN_BYTES);
    exgen_free(p);
    exgen_free(q);
    EXPECT(kept_bytes(local.heap) >= 2 * RUN_BYTES);
    memset(p, 'a', RUN_BYTES);
    memset(q, 'a', RUN_BYTES);
    EXPECT(exgen_validate_heap());
    EXPECT(exgen_malloc(RUN_BYTES) == q);
    EXPECT(exgen_malloc(RUN_BYTES) == p);
    EXPECT(exgen_validate_heap());
    exgen_free(p);
    exgen_free(q);
    exgen_purge();
}

static void kept_blocks_are_not_counted_as_in_use(void) {
    exgen_free(exgen_malloc(TRAY_BYTES));
    exgen_free(exgen_malloc(RUN_BYTES));
    EXPECT(kept_bytes(local.heap) > 0);
    EXPECT(stats().n_blocks == 0 && stats().block_bytes == 0);
    EXPECT(exgen_check_leaks(1) == 0);
}

static size_t heap_most_in_use(void) {
    size_t most = local.heap->n_units_peak * UNIT_BYTES;
    return most > options.kept_min ? most : options.kept_min;
}

/* Each round leaves a block that is too large for the first request of the next one. */
static void no_more_is_kept_than_was_in_use(void) {
    for (size_t i = 0; i < N_BEFORE; i++)
        blocks[i] = exgen_malloc(RUN_BYTES);
    for (size_t i = 0; i < N_BEFORE; i++)
        exgen_free(blocks[i]);
    exgen_purge();
    for (size_t round = 0; round < N_BLOCKS; round++) {
        char *p = exgen_malloc(RUN_BYTES / 2);
        p = exgen_realloc(p, RUN_BYTES);
        exgen_free(p);
        EXPECT(kept_bytes(local.heap) <= heap_most_in_use());
    }
    EXPECT(exgen_validate_heap());
}

static void what_is_kept_does_not_raise_the_peak(void) {
    allocate_all(TRAY_BYTES);
    size_t peak = local.heap->n_units;
    free_every(0, 2);
    EXPECT(kept_bytes(local.heap) > 0);
    for (size_t i = 0; i < N_BLOCKS; i++)
        exgen_malloc(OTHER_TRAY_BYTES);
    EXPECT(local.heap->n_units <= peak);
    EXPECT(exgen_validate_heap());
}

/* Blocks with units of their own, of another length: the units of the former are used again. */
static void what_is_kept_of_another_length_is_used(void) {
    exgen_purge();
    allocate_all(RUN_BYTES);
    size_t before = local.heap->n_units;
    free_every(0, 1);
    EXPECT(kept_bytes(local.heap) > 0);
    allocate_all(RUN_BYTES / 2);
    EXPECT(local.heap->n_units <= before);
    free_every(0, 1);
    EXPECT(exgen_validate_heap());
}

static void keep_much(void) {
    exgen_purge();
    allocate_all(RUN_BYTES);
    free_every(0, 2);
    EXPECT(kept_bytes(local.heap) > 3 * KEPT_AT_ONCE);
}

static void free_the_rest(void) {
    free_every(1, 2);
    exgen_purge();
    EXPECT(exgen_validate_heap());
}

static void look_gives_back_part_by_part(void) {
    keep_much();
    purge_begin(local.heap, 1, HOLD_NOTHING);
    while (local.heap->looks) {
        size_t before = kept_bytes(local.heap);
        purge_step(local.heap);
        EXPECT(kept_bytes(local.heap) + KEPT_AT_ONCE >= before);
    }
    EXPECT(kept_bytes(local.heap) == 0);
    free_the_rest();
}

static void request_of_another_length_has_a_part_given_back(void) {
    keep_much();
    size_t before = kept_bytes(local.heap);
    size_t n = 0;
    for (; kept_bytes(local.heap) == before && n < N_BLOCKS; n += 2)
        blocks[n] = exgen_malloc(RUN_BYTES / 2);
    EXPECT(kept_bytes(local.heap) < before);
    EXPECT(kept_bytes(local.heap) + 2 * KEPT_AT_ONCE >= before);
    while (n > 0)
        exgen_free(blocks[n -= 2]);
    free_the_rest();
}

/* Trays of five blocks have no room for the request.  What else is free is used first. */
static void larger_block_is_cut_before_all_go_back(void) {
    exgen_purge();
    allocate_all(TRAY_BYTES);
    size_t n_freed = N_BLOCKS / 2;
    for (size_t i = 0; i < n_freed; i++)
        exgen_free(blocks[2 * i]);
    size_t kept = kept_bytes(local.heap);
    size_t left = kept;
    for (size_t i = 0; left == kept && i < N_BLOCKS; i++) {
        exgen_malloc(CUT_BYTES);
        left = kept_bytes(local.heap);
    }
    EXPECT(left == kept - kept / n_freed);
}

/* Two neighbours have room for the request, which has none on trays with more in use before. */
static void requests_that_find_nothing_are_no_use_of_what_is_kept(void) {
    allocate_all(RUN_BYTES);
    free_every(0, 1);
    exgen_purge();
    allocate_all(TRAY_BYTES);
    size_t before = local.heap->n_units;
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (i % 4 < 2)
            exgen_free(blocks[i]);
    for (size_t i = 0; i < N_BLOCKS / 8; i++)
        exgen_malloc(MORE_TRAY_BYTES);
    EXPECT(local.heap->n_units <= before);
    EXPECT(exgen_validate_heap());
}

static void block_of_few_more_steps_is_used_whole(void) {
    exgen_purge();
    char *p = exgen_malloc(TRAY_BYTES);
    exgen_free(p);
    EXPECT(exgen_malloc(TRAY_BYTES - 2 * 1024) == p);
    EXPECT(exgen_malloc_usable_size(p) >= TRAY_BYTES);
    exgen_free(p);
}

static void shortest_that_is_long_enough_is_used(void) {
    exgen_purge();
    char *longer = exgen_malloc(20 * STEP_BYTES);
    char *shorter = exgen_malloc(18 * STEP_BYTES);
    exgen_free(longer);
    exgen_free(shorter);
    EXPECT(exgen_malloc(17 * STEP_BYTES) == shorter);
    EXPECT(exgen_validate_heap());
    EXPECT(exgen_malloc(16 * STEP_BYTES) == longer);
    EXPECT(exgen_validate_heap());
    exgen_free(longer);
    EXPECT(exgen_malloc(15 * STEP_BYTES) != longer);
    exgen_purge();
}

/* Of those that are looked at together, one is too long and one lies on no tray. */
static void no_block_is_used_that_is_much_longer_or_shorter(void) {
    exgen_purge();
    char *longer = exgen_malloc(8 * STEP_BYTES);
    char *unit = exgen_realloc(exgen_malloc(6 * UNIT_BYTES), UNIT_BYTES);
    EXPECT(exgen_malloc_usable_size(unit) == UNIT_BYTES);
    exgen_free(longer);
    exgen_free(unit);
    EXPECT(exgen_malloc(6 * STEP_BYTES) != longer);
    char *largest = exgen_malloc(N_TRAY_BLOCK_MAX * STEP_BYTES);
    EXPECT(exgen_malloc_usable_size(largest) >= N_TRAY_BLOCK_MAX * STEP_BYTES);
    EXPECT(exgen_validate_heap());
    exgen_purge();
}

static bool begins_a_page(const char *block) {
    return ((uintptr_t)block & (PAGE_BYTES - 1)) == 0;
}

/* One that does not, in steps of which four make a page. */
static char *within_a_page(void) {
    char *block = exgen_malloc(OTHER_TRAY_BYTES);
    for (size_t i = 0; i < N_BLOCKS && begins_a_page(block); i++)
        block = exgen_malloc(OTHER_TRAY_BYTES);
    EXPECT(!begins_a_page(block));
    return block;
}

static void aligned_block_is_used_again(void) {
    exgen_purge();
    char *p = exgen_memalign(PAGE_BYTES, OTHER_TRAY_BYTES);
    exgen_free(p);
    EXPECT(exgen_memalign(PAGE_BYTES, OTHER_TRAY_BYTES) == p);
    p = exgen_memalign(65536, 100);
    exgen_free(p);
    EXPECT(exgen_memalign(65536, 100) == p);
    exgen_free(within_a_page());
    EXPECT(begins_a_page(exgen_memalign(PAGE_BYTES, OTHER_TRAY_BYTES)));
    EXPECT(exgen_validate_heap());
}

static void *free_it(void *block) {
    exgen_free(block);
    return NULL;
}

static void block_that_comes_home_is_used_at_once(void) {
    exgen_purge();
    char *p = exgen_malloc(TRAY_BYTES);
    run_thread(free_it, p);
    EXPECT(exgen_malloc(TRAY_BYTES) == p);
    exgen_free(p);
}

/* A look meanwhile, which is a matter of time, begins to count anew. */
static bool what_is_taken_again_counts_for_housekeeping(void) {
    uint32_t before = local.heap->n_ticks;
    for (size_t i = 0; i < 2 * TICKS_AT_ONCE; i++)
        exgen_free(exgen_malloc(TRAY_BYTES));
    return local.heap->n_ticks >= before + TICKS_AT_ONCE;
}

static void block_grows_into_what_is_kept_behind_it(void) {
    exgen_free(exgen_malloc(8 * LARGE_BYTES));
    char *start = exgen_realloc(exgen_malloc(RUN_BYTES), 2 * RUN_BYTES);
    memset(start, 1, 2 * RUN_BYTES);
    size_t before = stats().n_maps + stats().n_unmaps;
    char *p = start;
    for (size_t size = 2 * RUN_BYTES; size <= 4 * LARGE_BYTES; size += RUN_BYTES)
        p = exgen_realloc(p, size);
    EXPECT(p == start && p[2 * RUN_BYTES - 1] == 1);
    p = exgen_realloc(p, LARGE_BYTES);
    EXPECT(p == start && exgen_malloc_usable_size(p) < 2 * LARGE_BYTES);
    EXPECT(stats().n_maps + stats().n_unmaps == before);
    exgen_free(p);
}

static void block_grows_elsewhere_into_what_is_kept(void) {
    exgen_purge();
    char *first = exgen_malloc(8 * LARGE_BYTES);
    char *one = exgen_malloc(LARGE_BYTES);
    char *other = exgen_malloc(LARGE_BYTES);
    char *p = one + LARGE_BYTES == first ? other : one; /* it cannot grow where it is */
    memset(p, 1, LARGE_BYTES);
    exgen_free(first);
    size_t before = stats().n_maps + stats().n_unmaps;
    char *grown = exgen_realloc(p, 4 * LARGE_BYTES);
    EXPECT(grown >= first && grown + 4 * LARGE_BYTES <= first + 8 * LARGE_BYTES);
    EXPECT(grown[LARGE_BYTES - 1] == 1);
    EXPECT(exgen_validate_heap());
    EXPECT(exgen_malloc(LARGE_BYTES) == p);
    EXPECT(stats().n_maps + stats().n_unmaps == before);
    exgen_free(one);
    exgen_free(other);
    exgen_free(grown);
}

static void neighbours_become_one(void) {
    exgen_purge();
    exgen_free(exgen_malloc(3 * LARGE_BYTES));
    size_t before = stats().n_maps;
    for (size_t i = 0; i < 3; i++)
        blocks[i] = exgen_malloc(LARGE_BYTES);
    exgen_free(blocks[0]);
    exgen_free(blocks[2]);
    exgen_free(blocks[1]);
    EXPECT(exgen_validate_heap());
    exgen_free(exgen_malloc(3 * LARGE_BYTES));
    EXPECT(stats().n_maps == before);
}

/* More blocks than the first table has descriptions of, cut from one and freed by leaps. */
static void neighbours_become_one_in_any_order(void) {
    enum {
        N_PARTS = 101, /* a prime, so that leaps reach all */
        LEAP = 37
    };
    exgen_purge();
    char *all = exgen_malloc((size_t)N_PARTS * LARGE_BYTES);
    exgen_free(all);
    for (size_t i = 0; i < N_PARTS; i++) {
        blocks[i] = exgen_malloc(LARGE_BYTES);
        EXPECT(blocks[i] == all + i * LARGE_BYTES);
    }
    EXPECT(exgen_validate_heap());
    for (size_t i = 0; i < N_PARTS; i++) {
        exgen_free(blocks[i * LEAP % N_PARTS]);
        EXPECT(exgen_validate_heap());
    }
    EXPECT(exgen_malloc((size_t)N_PARTS * LARGE_BYTES) == all);
    exgen_free(all);
    exgen_purge();
}

/* Of five that are kept, with blocks in between that stay. */
static void shortest_large_block_that_is_long_enough_is_cut(void) {
    static const size_t lengths[] = {5, 3, 9, 7, 4};
    enum {
        N_LENGTHS = sizeof lengths / sizeof *lengths
    };
    exgen_purge();
    exgen_free(exgen_malloc((size_t)64 * LARGE_BYTES)); /* of which all are cut */
    for (size_t i = 0; i < N_LENGTHS; i++) {
        blocks[i] = exgen_malloc(lengths[i] * LARGE_BYTES);
        blocks[N_LENGTHS + i] = exgen_malloc(LARGE_BYTES);
    }
    for (size_t i = 0; i < N_LENGTHS; i++)
        exgen_free(blocks[i]);
    EXPECT(exgen_malloc(6 * LARGE_BYTES) == blocks[3]);
    EXPECT(exgen_malloc(4 * LARGE_BYTES) == blocks[4]);
    EXPECT(exgen_malloc(4 * LARGE_BYTES) == blocks[0]);
    EXPECT(exgen_malloc(9 * LARGE_BYTES) == blocks[2]);
    EXPECT(exgen_validate_heap());
    exgen_free(blocks[0]);
    exgen_free(blocks[2]);
    exgen_free(blocks[3]);
    exgen_free(blocks[4]);
    for (size_t i = 0; i < N_LENGTHS; i++)
        exgen_free(blocks[N_LENGTHS + i]);
    exgen_purge();
}

/* Every second block stays, so that no two become one. */
static void oldest_is_the_first_to_go(void) {
    size_t n = options.large_cache_count + 1;
    size_t oldest = 2 * (n / 2);
    unsigned char resident;
    exgen_purge();
    for (size_t i = 0; i < 2 * n; i++)
        blocks[i] = exgen_malloc(LARGE_BYTES);
    exgen_free(blocks[oldest]);
    for (size_t i = 0; i < 2 * n; i += 2) {
        EXPECT(mincore(blocks[oldest], PAGE_BYTES, &resident) == 0);
        if (i != oldest)
            exgen_free(blocks[i]);
    }
    EXPECT(mincore(blocks[oldest], PAGE_BYTES, &resident) != 0);
    for (size_t i = 0; i < 2 * n; i += 2)
        EXPECT(i == oldest || mincore(blocks[i], PAGE_BYTES, &resident) == 0);
    EXPECT(exgen_validate_heap());
    for (size_t i = 1; i < 2 * n; i += 2)
        exgen_free(blocks[i]);
    exgen_purge();
}

static void alignment_is_found_among_kept_blocks(void) {
    exgen_purge();
    char *p = exgen_memalign(HUGE_ALIGNMENT, LARGE_BYTES);
    exgen_free(p);
    size_t before = stats().n_maps;
    for (size_t i = 0; i < 10; i++) {
        char *q = exgen_memalign(HUGE_ALIGNMENT, LARGE_BYTES / 16 * (i + 1));
        EXPECT(q == p);
        exgen_free(q);
    }
    EXPECT(stats().n_maps == before);
}

static void aligned_block_leaves_what_is_before_it(void) {
    exgen_purge();
    char *all = exgen_memalign(HUGE_ALIGNMENT, 4 * LARGE_BYTES);
    exgen_free(all);
    char *head = exgen_malloc(PAGE_BYTES * 100);
    EXPECT(head == all);
    char *p = exgen_memalign(HUGE_ALIGNMENT, LARGE_BYTES);
    EXPECT(p == all + HUGE_ALIGNMENT);
    char *between = exgen_malloc(HUGE_ALIGNMENT - PAGE_BYTES * 100);
    EXPECT(between == all + PAGE_BYTES * 100);
    EXPECT(exgen_validate_heap());
    exgen_free(p);
    exgen_free(between);
    exgen_free(head);
    EXPECT(exgen_validate_heap());
}

/* Pages are written at multiples of `step` from the first to the last. */
static void zeroed_again_after(size_t first, size_t last, size_t step) {
    size_t size = LARGE_BYTES + 100;
    for (size_t round = 0; round < 12; round++) {
        char *p = exgen_calloc(1, size);
        for (size_t i = 0; i < size; i++)
            EXPECT(p[i] == 0);
        for (size_t page = first; page <= last; page += step)
            memset(p + page * PAGE_BYTES, 1, PAGE_BYTES);
        memset(p + size - 50, 1, 50);
        exgen_free(p);
    }
}

static size_t resident_pages(void) {
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    EXPECT(file != NULL && fscanf(file, "%lu %lu", &total, &resident) == 2);
    fclose(file);
    return resident;
}

static void pages_that_were_only_read_take_no_memory_when_cleared(void) {
    size_t size = (size_t)LARGE_BYTES / 2 * 3; /* not kept by what ran before, no huge page */
    size_t written = 200 * (size_t)PAGE_BYTES;
    char *p = exgen_calloc(1, size);
    for (size_t i = 0; i < size; i += PAGE_BYTES)
        EXPECT(p[i] == 0);
    memset(p, 1, written);
    exgen_free(p);
    size_t before = resident_pages();
    EXPECT(exgen_calloc(1, size) == p);
    /* a sanitizer's shadow of what was read is resident, too */
    EXPECT(EXGEN_SANITIZED || resident_pages() < before + 100);
    exgen_free(p);
}

/* mincore ends the process, as in a service with systemd's SystemCallFilter=@system-service. */
static bool forbid_looks(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void clears_in_a_sandbox_that_forbids_to_look(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (forbid_looks()) {
            pages_that_were_only_read_take_no_memory_when_cleared();
            zeroed_again_after(0, 255, 1);
            zeroed_again_after(3, 250, 50);
            zeroed_again_after(5, 5, 1);
        }
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    clears_in_a_sandbox_that_forbids_to_look();
    pages_that_were_only_read_take_no_memory_when_cleared();
    next_request_of_the_length_gets_the_block(TRAY_BYTES);
    next_request_of_the_length_gets_the_block(RUN_BYTES);
    what_is_written_into_freed_blocks_does_no_harm();
    kept_blocks_are_not_counted_as_in_use();
    no_more_is_kept_than_was_in_use();
    what_is_kept_does_not_raise_the_peak();
    larger_block_is_cut_before_all_go_back();
    what_is_kept_of_another_length_is_used();
    look_gives_back_part_by_part();
    request_of_another_length_has_a_part_given_back();
    requests_that_find_nothing_are_no_use_of_what_is_kept();
    block_of_few_more_steps_is_used_whole();
    shortest_that_is_long_enough_is_used();
    no_block_is_used_that_is_much_longer_or_shorter();
    aligned_block_is_used_again();
    block_that_comes_home_is_used_at_once();
    EXPECT(what_is_taken_again_counts_for_housekeeping() ||
           what_is_taken_again_counts_for_housekeeping());
    block_grows_into_what_is_kept_behind_it();
    block_grows_elsewhere_into_what_is_kept();
    neighbours_become_one();
    neighbours_become_one_in_any_order();
    shortest_large_block_that_is_long_enough_is_cut();
    oldest_is_the_first_to_go();
    alignment_is_found_among_kept_blocks();
    aligned_block_leaves_what_is_before_it();
    zeroed_again_after(0, 0, 1);
    zeroed_again_after(100, 180, 1);
    zeroed_again_after(0, 250, 2);
    zeroed_again_after(0, 255, 1);
    zeroed_again_after(7, 9, 1);
    return test_passed();
}
