/* test_misuse.c - each mistake a program can make with free ends in its message and SIGABRT. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "exgen.h"
#include "heap/heap.h"
#include "test.h"

static char in_static_memory[64];

static uint64_t free_badly(const char *message, void *block) {
    expect_message(message, block);
    exgen_free(block);
    return 0;
}

static uint64_t free_twice(void *block) {
    return free_badly("double free", block);
}

static uint64_t free_inside(void *within) {
    return free_badly("invalid free, inside a block", within);
}

static uint64_t free_foreign(void *elsewhere) {
    return free_badly("invalid free, not a block of this heap", elsewhere);
}

static uint64_t double_free_of(size_t bytes) {
    exgen_malloc(bytes);
    char *p = exgen_malloc(bytes);
    exgen_free(p);
    return free_twice(p);
}

static uint64_t double_free_at_once(void) {
    return double_free_of(40);
}

static uint64_t double_free_later(void) {
    exgen_malloc(40);
    char *p = exgen_malloc(40);
    char *q = exgen_malloc(40);
    exgen_free(p);
    exgen_free(q);
    return free_twice(p);
}

/* A word that the program took from a free block, and wrote, is no double free. */
static uint64_t copied_mark(void) {
    uintptr_t *keep = exgen_malloc(40);
    uintptr_t *p = exgen_malloc(40);
    uintptr_t *q = exgen_malloc(40);
    exgen_free(p);
    memcpy(keep, p, 16);
    memcpy(q, keep, 16);
    exgen_free(q);
    exgen_free(keep);
    return free_twice(q);
}

static void *free_copy_of_mark(void *block) {
    uintptr_t *p = exgen_malloc(40);
    exgen_free(p);
    memcpy(block, p, 16);
    exgen_free(block);
    expect_message("double free", block);
    exgen_free(block);
    return NULL;
}

/* The same by a thread that does not own the block: it is on that thread's list after the first. */
static uint64_t copied_mark_elsewhere(void) {
    run_thread(free_copy_of_mark, exgen_malloc(40));
    return 0;
}

static uint64_t double_free_of_last_block(void) {
    exgen_malloc(40);
    char *p = exgen_malloc(3000);
    exgen_free(p);
    exgen_purge();
    return free_twice(p);
}

static uint64_t double_free_of_run(void) {
    char *p = exgen_malloc(100000);
    exgen_free(p);
    return free_twice(p);
}

static uint64_t double_free_on_tray(void) {
    return double_free_of(20000);
}

static uint64_t reused_then_freed_again(size_t size) {
    char *p = exgen_malloc(size);
    char *q = exgen_malloc(size);
    exgen_free(p);
    exgen_free(q);
    exgen_malloc(size);
    return free_twice(p);
}

static uint64_t double_free_on_tray_later(void) {
    return reused_then_freed_again(20000);
}

static uint64_t double_free_of_run_later(void) {
    return reused_then_freed_again(100000);
}

/* The second word of the block, where a double free is seen at once, was overwritten: at the latest
 * malloc sees it, before the block has two owners. */
static uint64_t double_free_unseen_on_tray(void) {
    char *p = exgen_malloc(20000);
    exgen_free(p);
    memset(p + 8, 'a', 8);
    exgen_free(p);
    EXPECT(exgen_malloc(20000) == p);
    expect_message("corrupted free list", p);
    exgen_malloc(20000);
    return 0;
}

static uint64_t double_free_of_overwritten_run(void) {
    exgen_malloc(50000);
    char *p = exgen_malloc(100000);
    exgen_free(p);
    memset(p, 'a', 100000);
    return free_twice(p);
}

static void *free_again(void *block) {
    exgen_free(block);
    return NULL;
}

/* Another thread frees it once more: its owner sees that when the block comes home. */
static uint64_t double_free_of_run_elsewhere(void) {
    char *p = exgen_malloc(100000);
    exgen_free(p);
    expect_message("double free", p);
    run_thread(free_again, p);
    exgen_malloc(200000);
    return 0;
}

static uint64_t size_of_freed_run(void) {
    char *p = exgen_malloc(100000);
    exgen_free(p);
    memset(p, 'a', 100000);
    expect_message("not a block of this heap", p);
    return exgen_malloc_usable_size(p);
}

static uint64_t size_of_freed_on_tray(void) {
    char *p = exgen_malloc(20000);
    exgen_free(p);
    expect_message("not a block of this heap", p);
    return exgen_malloc_usable_size(p);
}

static uint64_t overwritten_link_on_tray(void) {
    char *p = exgen_malloc(20000);
    exgen_free(exgen_malloc(20000));
    exgen_free(p);
    memset(p, 'a', 8);
    expect_message("corrupted free list", p);
    exgen_malloc(20000);
    return 0;
}

static uint64_t double_free_of_merged(void) {
    exgen_malloc(20000);
    char *p = exgen_malloc(20000);
    char *q = exgen_malloc(20000);
    exgen_free(q);
    exgen_free(p);
    return free_twice(q);
}

static uint64_t free_of_interior_on_tray(void) {
    char *p = exgen_malloc(20000);
    return free_inside(p + 1024);
}

static uint64_t free_between_steps(void) {
    char *p = exgen_malloc(20000);
    return free_inside(p + 16);
}

static uint64_t double_free_of_large(void) {
    char *p = exgen_malloc(10000000);
    exgen_free(p);
    return free_foreign(p);
}

static uint64_t free_of_static_memory(void) {
    return free_foreign(in_static_memory + 16);
}

static uint64_t free_of_stack(void) {
    char on_stack[64];
    memset(on_stack, 1, sizeof on_stack);
    void *volatile p = on_stack;
    exgen_free(exgen_malloc(1));
    return free_foreign(p);
}

static uint64_t free_of_interior(void) {
    char *p = exgen_malloc(100);
    return free_inside(p + 16);
}

static uint64_t free_of_second_word(void) {
    char *p = exgen_malloc(100);
    return free_inside(p + 8);
}

/* The last block of the slab that is in use, so that the free is an event. */
static uint64_t free_of_next_uncut(void) {
    char *p = exgen_malloc(4096);
    return free_foreign(p + 4096);
}

static uint64_t free_of_interior_of_run(void) {
    char *p = exgen_malloc(100000);
    return free_inside(p + 65536);
}

static uint64_t free_of_second_word_of_run(void) {
    char *p = exgen_malloc(100000);
    return free_inside(p + 16);
}

/* No processor has such addresses; and what free looks up for them lies beyond the owner map. */
static uint64_t free_of_text(void) {
    exgen_malloc(40);
    void *volatile p = (void *)(uintptr_t)0x4141414141414140u;
    return free_foreign(p);
}

static uint64_t free_beyond_the_map(void) {
    exgen_malloc(40);
    void *volatile p = (void *)((uintptr_t)1 << 60);
    return free_foreign(p);
}

static uint64_t realloc_of_text(void) {
    void *volatile p = (void *)(uintptr_t)0x4141414141414140u;
    expect_message("not a block of this heap", p);
    return exgen_realloc(p, 10) != NULL;
}

static uint64_t free_of_untouched(void) {
    char *p = exgen_malloc(100);
    return free_foreign(p + 112 * 60);
}

static uint64_t free_of_wrong_size(void) {
    char *p = exgen_malloc(100);
    expect_message("size given to free is larger than the block", p);
    exgen_free_sized(p, 200);
    return 0;
}

static uint64_t sized_double_free_of(size_t bytes) {
    exgen_malloc(bytes);
    char *p = exgen_malloc(bytes);
    exgen_free_sized(p, bytes);
    expect_message("double free", p);
    exgen_free_sized(p, bytes);
    return 0;
}

static uint64_t sized_double_free(void) {
    return sized_double_free_of(40);
}

static uint64_t sized_double_free_on_tray(void) {
    return sized_double_free_of(20000);
}

static uint64_t sized_double_free_of_run(void) {
    return sized_double_free_of(100000);
}

static char *freed(void) {
    exgen_malloc(40);
    char *p = exgen_malloc(40);
    exgen_free(p);
    expect_message("not a block of this heap", p);
    return p;
}

static uint64_t size_of_freed(void) {
    return exgen_malloc_usable_size(freed());
}

static uint64_t realloc_of_freed(void) {
    return exgen_realloc(freed(), 80) != NULL;
}

static uint64_t realloc_of_foreign(void) {
    expect_message("not a block of this heap", in_static_memory + 16);
    return exgen_realloc(in_static_memory + 16, 10) != NULL;
}

/* --- links of free blocks that a program overwrites --- */

/* Of the only block of its size, which is the next one to be used. */
static uint64_t overwritten_link_of_only_block(void) {
    char *p = exgen_malloc(4096);
    exgen_free(p);
    memset(p, 'A', 4096);
    expect_message("corrupted free list", p);
    return exgen_malloc(4096) != NULL;
}

/* Free two blocks, overwrite a link with `wrong`, allocate until it is used. */
static uint64_t use_overwritten_link(uintptr_t wrong, size_t n_bytes) {
    void *volatile keep = exgen_malloc(40);
    char *p = exgen_malloc(40);
    char *volatile q = exgen_malloc(40);
    memset(keep, 1, 40); /* used, so that it does not look like the overwritten one */
    exgen_free(p);
    exgen_free(q);
    memcpy(q, &wrong, n_bytes);
    expect_message("corrupted free list", q);
    for (size_t i = 0; i < 1000; i++)
        exgen_malloc(40);
    return keep != NULL;
}

static uint64_t overwritten_link_text(void) {
    return use_overwritten_link((uintptr_t)0x4141414141414141, sizeof(uintptr_t));
}

static uint64_t overwritten_link_zero(void) {
    return use_overwritten_link(0, sizeof(uintptr_t));
}

static uint64_t overwritten_link_pointer(void) {
    return use_overwritten_link((uintptr_t)exgen_malloc(40), sizeof(uintptr_t));
}

static char *sent[100];

static void *free_sent(void *unused) {
    for (size_t i = 0; i < 100; i++)
        exgen_free(sent[i]);
    return unused;
}

/* Write over a word of a block on its way home, and use what came home. */
static uint64_t overwrite_sent(size_t bytes, char *(*chosen)(void), size_t word) {
    for (size_t i = 0; i < 100; i++)
        sent[i] = exgen_malloc(bytes);
    run_thread(free_sent, NULL);
    char *block = chosen();
    memset(block + word * sizeof(void *), 'A', sizeof(void *));
    expect_message("corrupted free list", block);
    for (size_t i = 0; i < 1000; i++)
        exgen_malloc(bytes);
    return 0;
}

static char *one_of_sent(void) {
    return sent[50];
}

static char *first_of_sent(void) {
    return sent[0];
}

/* They have no room for addresses of others. */
static uint64_t overwritten_link_of_sent_block(void) {
    return overwrite_sent(16, one_of_sent, 0);
}

static uint64_t overwritten_link_of_bundle(void) {
    return overwrite_sent(40, first_of_sent, 0);
}

static uint64_t overwritten_number_of_bundle(void) {
    return overwrite_sent(40, first_of_sent, 1);
}

static uint64_t overwritten_address_in_bundle(void) {
    return overwrite_sent(40, first_of_sent, 2);
}

static void *free_sent_and_one_again(void *unused) {
    for (size_t i = 0; i < 100; i++)
        exgen_free(sent[i == 20 ? 10 : i]);
    pause();
    return unused;
}

/* The thread lets go of a batch, and goes on. */
static uint64_t double_free_in_a_batch(void) {
    for (size_t i = 0; i < 100; i++)
        sent[i] = exgen_malloc(40);
    expect_message("double free", sent[10]);
    run_thread(free_sent_and_one_again, NULL);
    return 0;
}

static bool was_sent(const void *block) {
    for (size_t i = 0; i < 100; i++)
        if (sent[i] == block)
            return true;
    return false;
}

/* The thread's own blocks come back through the exchange, while their slab sleeps without any that
 * is free. */
static uint64_t double_free_of_block_that_came_back(void) {
    for (size_t i = 0; i < 100; i++)
        sent[i] = exgen_malloc(1000);
    run_thread(free_sent, NULL);
    void **ready = &local.free[class_of(1000)];
    for (size_t i = 0; i < 1000 && !was_sent(*ready); i++)
        exgen_malloc(1000);
    char *block = *ready;
    const struct slab *slab = slab_of((uintptr_t)block);
    EXPECT(was_sent(block) && slab->state == SLAB_ASLEEP && slab->free == NULL);
    return free_twice(block);
}

/* --- in a thread that uses blocks of others --- */

enum {
    N_OF_OTHERS = 2000
};

static void *of_others[N_OF_OTHERS];

static void *allocate_of_others(void *unused) {
    for (size_t i = 0; i < N_OF_OTHERS; i++)
        of_others[i] = exgen_malloc(100);
    return unused;
}

/* From now on it puts its own blocks where it puts those of others. */
static void use_blocks_of_others(void) {
    void *own = exgen_malloc(100);
    run_thread(allocate_of_others, NULL);
    for (size_t i = 0; i < N_OF_OTHERS; i++)
        exgen_free(of_others[i]);
    for (size_t i = 0; i < N_OF_OTHERS && local.mixed == NULL; i++)
        exgen_malloc(100);
    EXPECT(own != NULL && local.mixed != NULL);
}

static uint64_t double_free_of_a_smallest_block(void) {
    use_blocks_of_others();
    return double_free_of(16);
}

/* A block that waits in a list for others' blocks when the thread uses such blocks no more. */
static uint64_t double_free_of_block_in_a_list_of_others(void) {
    enum {
        SIZE = 1000,
        N = 100000
    };
    use_blocks_of_others();
    char *block = exgen_malloc(SIZE);
    const struct slab *slab = slab_of((uintptr_t)block);
    for (size_t i = 0; i < N && slab->state != SLAB_ASLEEP; i++)
        exgen_malloc(SIZE);
    exgen_free(block);
    for (size_t i = 0; i < N && local.mixed != NULL; i++)
        exgen_malloc(200);
    EXPECT(local.mixed == NULL && slab->state == SLAB_ASLEEP && slab->free == NULL);
    return free_twice(block);
}

/* The common paths of free find no owner of a block that lies far away. */
static uint64_t double_free_far_away(void) {
    exgen_free(exgen_malloc(1));
    mmap(NULL, layout.n_places << PLACE_SHIFT, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); /* or a sanitizer has taken them */
    for (size_t i = 0; i < 100; i++)
        exgen_malloc(100000);
    use_blocks_of_others();
    return double_free_at_once();
}

/* --- writes into free blocks, with junk --- */

static uint64_t write_after_free(void) {
    char *p = exgen_malloc(100);
    exgen_free(p);
    p[83] = 'x';
    expect_message("write after free", p + 80);
    for (size_t i = 0; i < 1000; i++)
        exgen_malloc(100);
    exgen_purge();
    return 0;
}

/* The second word is the mark of a free block. */
static uint64_t write_after_free_into_mark(void) {
    char *p = exgen_malloc(16);
    exgen_free(p);
    p[8] = (char)(p[8] + 1);
    expect_message("write after free", p + 8);
    for (size_t i = 0; i < 2000; i++)
        exgen_malloc(16);
    return 0;
}

static uint64_t write_into_quarantine(void) {
    char *p = exgen_malloc(100);
    exgen_free(p);
    p[0] = 'x';
    expect_message("write after free", p);
    exgen_purge();
    return 0;
}

static uint64_t double_free_in_quarantine(void) {
    char *p = exgen_malloc(100);
    exgen_free(p);
    exgen_free(exgen_malloc(100));
    return free_twice(p);
}

static void *free_it(void *block) {
    exgen_free(block);
    exgen_malloc(1);
    exgen_free(block);
    return NULL;
}

static uint64_t double_free_of_another_threads_block(void) {
    char *p = exgen_malloc(100);
    expect_message("double free", p);
    run_thread(free_it, p);
    return 0;
}

static uint64_t double_free_by_another_thread(void) {
    char *p = exgen_malloc(20000);
    exgen_free(p);
    run_thread(free_again, p);
    expect_message("double free", p);
    exgen_malloc(30000);
    return 0;
}

/* --- canaries, with secure --- */

static char *write_behind(char *p, size_t offset) {
    p[offset] = (char)(p[offset] ^ 'A');
    expect_message("write behind the end of a block", p);
    return p;
}

static uint64_t free_after_write(char *p, size_t offset) {
    exgen_free(write_behind(p, offset));
    return 0;
}

static uint64_t write_behind_block(void) {
    return free_after_write(exgen_malloc(8), 8);
}

/* Between what was asked for and the last word of the block. */
static uint64_t write_into_fill(void) {
    return free_after_write(exgen_malloc(30), 30);
}

static uint64_t write_behind_block_then_realloc(void) {
    return exgen_realloc(write_behind(exgen_malloc(100), 103), 5000) != NULL;
}

static uint64_t write_behind_aligned(void) {
    return free_after_write(exgen_memalign(64, 100), 100);
}

static uint64_t write_behind_shrunk(void) {
    return free_after_write(exgen_realloc(exgen_malloc(100), 99), 99);
}

static uint64_t write_before(size_t size) {
    char *blocks[64];
    for (size_t i = 0; i < 64; i++)
        blocks[i] = exgen_malloc(size);
    char *p = blocks[0];
    for (size_t i = 1; i < 64; i++) /* not the first of its slab */
        p = blocks[i] > p ? blocks[i] : p;
    p[-1] = (char)(p[-1] ^ 'A');
    return free_badly("write before the start of a block", p);
}

static uint64_t write_before_smallest(void) {
    return write_before(8);
}

static uint64_t write_before_block(void) {
    return write_before(200);
}

static uint64_t free_of_too_few_bytes(void) {
    char *p = exgen_malloc(100);
    expect_message("size given to free is smaller than the block", p);
    exgen_free_sized(p, 99);
    return 0;
}

static uint64_t double_free_of_nothing(void) {
    void *p = exgen_malloc(0);
    exgen_free(p);
    return free_twice(p);
}

/* --- accesses that guard pages catch --- */

static uint64_t write_at(volatile char *start, size_t first, size_t last) {
    signal(SIGSEGV, SIG_DFL);
    for (size_t i = first; i <= last; i++)
        start[i] = 0;
    return 0;
}

static uint64_t write_behind_aligned_page(void) {
    return write_at(exgen_memalign(64, 4096), 4096, 4096);
}

static uint64_t write_behind_large(void) {
    return write_at(exgen_malloc(4096 * 100), 4096 * 100, 4096 * 100);
}

/* The other one may lie behind the lower of the two. */
static uint64_t write_behind_two_large(void) {
    char *one = exgen_malloc(4096 * 100);
    char *other = exgen_malloc(4096 * 100);
    return write_at(one > other ? one : other, 4096 * 100, 4096 * 100);
}

static uint64_t write_into_freed_large(void) {
    char *p = exgen_malloc(1000000);
    exgen_free(p);
    return write_at(p, 5000, 5000);
}

static uint64_t write_behind_page(void) {
    return write_at(exgen_malloc(4096), 4096, 4096);
}

static uint64_t write_to_nothing(void) {
    return write_at(exgen_malloc(0), 0, 0);
}

/* The block that took its place may not be hit. */
static uint64_t write_into_freed_large_later(void) {
    char *p = exgen_malloc(1000000);
    exgen_free(p);
    for (size_t i = 0; i < 10; i++)
        exgen_free(exgen_malloc(1000000));
    exgen_malloc(1000000);
    return write_at(p, 5000, 5000);
}

/* From any block to the end of its slab at the latest. */
static uint64_t write_behind_slab(void) {
    return write_at(exgen_malloc(3000), 3000, 8 * 16384);
}

static uint64_t write_before_blocks(void) {
    char *p = exgen_malloc(48);
    signal(SIGSEGV, SIG_DFL);
    for (size_t i = 1; i < 1048576; i++)
        *(volatile char *)(p - i) = 0;
    return 0;
}

#define CHECK  "check:true"
#define SECURE "secure:true"

struct misuse {
    scenario run;
    const char *confs[6]; /* under each of which it is run */
};

static const struct misuse ends_with_message[] = {
    {double_free_at_once, {"", CHECK, SECURE}},
    {double_free_later, {"", CHECK, "junk:true", "quarantine:100"}},
    {copied_mark, {"", CHECK}},
    {copied_mark_elsewhere, {""}},
    {double_free_of_last_block, {"", CHECK}},
    {double_free_of_run, {"", CHECK}},
    {double_free_on_tray, {"", CHECK}},
    {double_free_on_tray_later, {"", CHECK}},
    {double_free_of_run_later, {"kept_min:1048576", "check:true,kept_min:1048576"}},
    {overwritten_link_on_tray, {""}},
    {double_free_unseen_on_tray, {""}},
    {double_free_of_overwritten_run,
     {"", CHECK, "kept_min:1048576", "kept_percent:100,kept_min:0"}}, /* no more is kept */
    {double_free_of_run_elsewhere, {"", CHECK}},
    {size_of_freed_run, {""}},
    {size_of_freed_on_tray, {""}},
    {double_free_by_another_thread, {""}},
    {double_free_of_block_that_came_back, {""}},
    {double_free_of_block_in_a_list_of_others, {""}},
    {double_free_of_merged, {"", CHECK}},
    {free_of_interior_on_tray, {"", CHECK}},
    {free_between_steps, {"", CHECK}},
    {double_free_of_large, {""}},
    {free_of_static_memory, {"", SECURE}},
    {free_of_stack, {""}},
    {free_of_interior, {CHECK, SECURE}},
    {free_of_interior_of_run, {"", CHECK}},
    {free_of_second_word_of_run, {""}},
    {realloc_of_text, {""}},
    {free_of_second_word, {""}},
    {free_of_next_uncut, {""}},
    {free_of_text, {"", CHECK, SECURE}},
    {free_beyond_the_map, {"", CHECK}},
    {free_of_untouched, {CHECK}},
    {free_of_wrong_size, {CHECK, SECURE}},
    {sized_double_free, {"", CHECK, "junk:true", SECURE}},
    {sized_double_free_on_tray, {"", CHECK, "junk:true"}},
    {sized_double_free_of_run, {"", CHECK, "junk:true"}},
    {size_of_freed, {"", CHECK, SECURE}},
    {realloc_of_freed, {"", CHECK, SECURE}},
    {realloc_of_foreign, {""}},
    {overwritten_link_text, {"", CHECK}},
    {overwritten_link_of_only_block, {""}},
    {overwritten_link_zero, {""}},
    {overwritten_link_pointer, {""}},
    {overwritten_link_of_sent_block, {"exchange_bytes:0"}},
    {overwritten_link_of_bundle, {"exchange_bytes:0"}},
    {overwritten_number_of_bundle, {"exchange_bytes:0"}},
    {overwritten_address_in_bundle, {"exchange_bytes:0"}},
    {double_free_in_a_batch, {""}},
    {double_free_of_a_smallest_block, {""}},
    {double_free_far_away, {""}},
    {write_after_free, {"junk:true", SECURE}},
    {write_after_free_into_mark, {"junk:true"}},
    {write_into_quarantine, {SECURE}},
    {double_free_in_quarantine, {SECURE, "quarantine:100"}},
    {double_free_of_another_threads_block, {"", CHECK, "quarantine:100", "junk:true"}},
    {write_behind_block, {SECURE}},
    {write_into_fill, {SECURE}},
    {write_behind_block_then_realloc, {SECURE}},
    {write_behind_aligned, {SECURE}},
    {write_behind_shrunk, {SECURE}},
    {write_before_smallest, {SECURE}},
    {write_before_block, {SECURE}},
    {free_of_too_few_bytes, {SECURE}},
    {double_free_of_nothing, {SECURE}},
};

static const struct misuse ends_at_guard[] = {
    {write_behind_page, {SECURE}},
    {write_behind_aligned_page, {SECURE, SECURE ",small_max:32768"}},
    {write_to_nothing, {SECURE}},
    {write_into_freed_large_later, {SECURE}},
    {write_behind_large, {SECURE, ""}},
    {write_behind_two_large, {""}},
    {write_into_freed_large, {SECURE}},
    {write_behind_slab, {SECURE}},
    {write_before_blocks, {SECURE}},
};

static void expect_signal(const struct misuse *misuses, size_t n, int expected) {
    for (size_t i = 0; i < n; i++)
        for (const char *const *conf = misuses[i].confs; *conf != NULL; conf++) {
            struct outcome o = run_in_child(misuses[i].run, *conf);
            fprintf(stderr, "misuse %zu, %s: %s", i, *conf, o.output);
            EXPECT(WIFSIGNALED(o.status) && WTERMSIG(o.status) == expected);
            EXPECT(strcmp(o.output, o.expected) == 0);
        }
}

int main(void) {
    expect_signal(ends_with_message, sizeof ends_with_message / sizeof *ends_with_message, SIGABRT);
    expect_signal(ends_at_guard, sizeof ends_at_guard / sizeof *ends_at_guard, SIGSEGV);
    return test_passed();
}
