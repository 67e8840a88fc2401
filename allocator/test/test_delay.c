/* test_delay.c - memory is given back when purge_delay is over, by a clock that the test sets.
 *
 * The linker sends os_clock_ms to the function below (--wrap).  Each scenario runs in a child with
 * a delay of 1000 ms, has memory become free at START, and returns after how many ms, in steps of
 * STEP, a thread that is at work all the time gives it back.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "child.h"
#include "exgen.h"
#include "heap/heap.h"
#include "heap/supply.h"
#include "memory/pool.h"
#include "test.h"
#include "thread/exchange.h"
#include "thread/housekeeping.h"

enum {
    DELAY = 1000, /* as CONF has it */
    STEP = 100,
    LAST = 5 * DELAY,
    PART = 4000, /* blocks of a row */
    LARGE = 300000
};

#define CONF      "abort_conf:true,purge_delay:1000,merge_percent:0"
#define CONF_CALM CONF ",fall_percent:0"

static const uint64_t START = 1000000;
static uint64_t clock_ms = 1000000;

uint64_t __wrap_os_clock_ms(void);
uint64_t __wrap_os_clock_ms(void) {
    return clock_ms;
}

/* Enough slow paths for looks at the clock and for all that a look sets in motion. */
static void tick(void) {
    for (size_t i = 0; i < 4096; i++)
        housekeeping_tick(local.heap);
}

/* The same by what a program calls. */
static void allocate_runs(void) {
    for (size_t i = 0; i < 4096; i++)
        exgen_free(exgen_malloc(120000));
}

/* What a thread does whose blocks are all large, or on the common paths. */
static void allocate_large(void) {
    for (size_t i = 0; i < 4096; i++)
        exgen_free(exgen_malloc(LARGE));
}

static void tick_and_allocate_large(void) {
    tick();
    exgen_free(exgen_malloc(LARGE));
}

static void (*work)(void) = tick;

static struct {
    char *blocks[(LAST / STEP + 2) * PART];
    size_t n_freed;
} row;

static void allocate_row(void) {
    for (size_t i = 0; i < sizeof row.blocks / sizeof row.blocks[0]; i++) {
        row.blocks[i] = exgen_malloc(100);
        *row.blocks[i] = 1;
    }
}

/* ... by a thread that does nothing else. */
static void free_part_of_row(void) {
    for (size_t i = 0; i < PART; i++)
        exgen_free(row.blocks[row.n_freed++]);
}

/* After how many ms the number leaves its value; LAST if it does not. */
static uint64_t delay_until_change(size_t (*number)(void)) {
    size_t before = number();
    work();
    for (clock_ms = START; clock_ms < START + LAST && number() == before; clock_ms += STEP)
        work();
    return clock_ms - START - (clock_ms < START + LAST ? STEP : 0);
}

static size_t n_purges(void) {
    return stats().n_purges;
}

static size_t n_unmaps(void) {
    return stats().n_unmaps;
}

static size_t n_given_back(void) {
    return n_purges() + n_unmaps();
}

static size_t n_on_shelves(void) {
    return exchange_has_any();
}

/* Between used blocks, so that the superblock stays in use. */
static uint64_t delay_of_units(void) {
    char *blocks[3];
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = exgen_malloc(100000);
        memset(blocks[i], 1, 100000);
    }
    exgen_free(blocks[1]);
    return delay_until_change(n_purges);
}

/* One in each four pages stays, so that no unit becomes free. */
static uint64_t delay_of_pages_between_blocks(void) {
    static char *blocks[12000];
    for (size_t i = 0; i < 12000; i++)
        blocks[i] = memset(exgen_malloc(1000), 1, 1000);
    for (size_t i = 0; i < 12000; i++)
        if (i % 16 != 0)
            exgen_free(blocks[i]);
    return delay_until_change(n_purges);
}

static uint64_t delay_for_a_thread_that_allocates_runs(void) {
    work = allocate_runs;
    return delay_of_units();
}

static uint64_t delay_for_a_thread_that_only_frees(void) {
    allocate_row();
    work = free_part_of_row;
    return delay_until_change(n_purges);
}

static void *allocate_row_and_end(void *unused) {
    allocate_row();
    return unused;
}

/* In a heap of its own, or the thread would begin with the one that is left. */
static void let_another_allocate_row(void) {
    exgen_free(exgen_malloc(100));
    run_thread(allocate_row_and_end, NULL);
    work = free_part_of_row;
}

/* The blocks go to a heap without a thread, at which others have to look. */
static uint64_t delay_for_a_thread_that_only_frees_what_others_left(void) {
    let_another_allocate_row();
    return delay_until_change(n_given_back);
}

/* ... after it used some of them, from when on it collects them in another way. */
static uint64_t delay_for_a_thread_that_used_what_others_left(void) {
    let_another_allocate_row();
    free_part_of_row();
    for (size_t i = 0; i < PART && local.mixed == NULL; i++)
        exgen_malloc(100);
    EXPECT(local.mixed != NULL);
    return delay_until_change(n_given_back);
}

/* The second time what is due is planned at a look, not when memory becomes free. */
static uint64_t delay_of_later_units(void) {
    EXPECT(delay_of_units() < LAST);
    char *block = exgen_malloc(50000);
    memset(block, 1, 50000);
    exgen_free(block);
    uint64_t freed_ms = clock_ms;
    size_t before = n_purges();
    while (n_purges() == before && clock_ms < freed_ms + LAST) {
        work();
        clock_ms += STEP;
    }
    return clock_ms - STEP - freed_ms;
}

static uint64_t delay_of_a_large_block(void) {
    exgen_free(exgen_malloc(100));
    exgen_free(exgen_malloc(64 << 20));
    supply_schedule_purge(local.heap);
    return delay_until_change(n_unmaps);
}

static uint64_t delay_for_a_thread_with_large_blocks_only(void) {
    work = allocate_large;
    exgen_free(exgen_malloc(64 << 20));
    return delay_until_change(n_unmaps);
}

/* Blocks are cut from it and join it again all the time. */
static uint64_t delay_of_what_blocks_are_cut_from(void) {
    work = tick_and_allocate_large;
    return delay_of_a_large_block();
}

static uint64_t delay_of_what_realloc_leaves(void) {
    void *block = exgen_malloc(64 << 20);
    EXPECT(exgen_realloc(block, 1 << 20) == block);
    return delay_until_change(n_unmaps);
}

static uint64_t delay_of_the_pool(void) {
    static char *blocks[16000];
    for (size_t i = 0; i < 16000; i++) {
        blocks[i] = exgen_malloc(1024);
        *blocks[i] = 1;
    }
    for (size_t i = 0; i < 16000; i++)
        exgen_free(blocks[i]);
    EXPECT(pool_count() > 0);
    EXPECT(!pool_purge(START + DELAY - 1) || n_purges() == 0);
    size_t early = n_purges();
    EXPECT(pool_purge(START + DELAY - 1));
    EXPECT(n_purges() == early);
    EXPECT(!pool_purge(START + DELAY));
    EXPECT(n_purges() > early);
    return DELAY;
}

/* In a heap that stays as large as it is. */
static uint64_t delay_of_holes_in_trays(void) {
    static char *blocks[200];
    for (size_t i = 0; i < 200; i++)
        blocks[i] = memset(exgen_malloc(20000), 1, 20000);
    for (size_t i = 0; i < 200; i += 40)
        exgen_free(blocks[i]);
    return delay_until_change(n_purges);
}

static void *allocate_and_rest(void *barrier) {
    EXPECT(exgen_malloc(100) != NULL);
    pthread_barrier_wait(barrier);
    pause();
    return NULL;
}

/* ... of nine looks one is at them, and it takes two. */
static uint64_t delay_of_holes_in_trays_beside_a_thread(void) {
    pthread_barrier_t two;
    pthread_t thread;
    pthread_barrier_init(&two, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, allocate_and_rest, &two) == 0);
    pthread_barrier_wait(&two);
    EXPECT(delay_of_holes_in_trays() == LAST);
    size_t before = n_purges();
    while (n_purges() == before && clock_ms < START + 4 * LAST) {
        work();
        clock_ms += STEP;
    }
    return clock_ms - STEP - START;
}

static uint64_t delay_of_freed_blocks_of_others(void) {
    void *block = exgen_malloc(100);
    size_t class = slab_of((uintptr_t)block)->class;
    void **places = exchange_open(&local.heap->spare);
    places[0] = block;
    EXPECT(exchange_give(class, 1, places, 1, false));
    supply_schedule_purge(local.heap);
    return delay_until_change(n_on_shelves);
}

static size_t purges_of_a_burst(void) {
    static char *blocks[100];
    size_t before = n_purges();
    for (size_t i = 0; i < 100; i++)
        blocks[i] = exgen_malloc(100000);
    for (size_t i = 0; i < 100; i++)
        if (i % 9 != 0)
            exgen_free(blocks[i]);
    for (size_t i = 0; i < 100; i += 9)
        exgen_free(blocks[i]);
    return n_purges() - before;
}

/* A thread that frees nearly all again and again gives its memory back for a few times only. */
static uint64_t falls_in_haste(void) {
    EXPECT(purges_of_a_burst() > 0);
    for (size_t i = 0; i < 4; i++)
        purges_of_a_burst();
    EXPECT(purges_of_a_burst() == 0);
    return DELAY;
}

/* No free takes as long as the heap is large. */
static uint64_t calls_that_a_fall_takes(void) {
    static char *blocks[2000];
    for (size_t i = 0; i < 2000; i++)
        blocks[i] = exgen_malloc(100000);
    for (size_t i = 0; i < 2000; i++) {
        size_t before = n_purges() + n_unmaps();
        exgen_free(blocks[i]);
        EXPECT(n_purges() + n_unmaps() <= before + 40);
    }
    EXPECT(local.heap->n_dirty <= 2 * 64); /* of which few superblocks have as many */
    return DELAY;
}

static uint64_t falls_until_it_grows(void) {
    static char *blocks[2000];
    size_t n;
    for (n = 0; n < 2000; n++)
        blocks[n] = exgen_malloc(100000);
    while (!local.heap->is_falling)
        exgen_free(blocks[--n]);
    for (; n < 1700; local.heap->n_ticks = 0) /* no step meanwhile */
        blocks[n++] = exgen_malloc(100000);
    housekeeping_step(local.heap);
    EXPECT(!local.heap->is_falling);
    return DELAY;
}

static const struct {
    const char *name;
    scenario run;
    uint64_t most_ms;
    const char *conf;
} cases[] = {
    {"units of a superblock", delay_of_units, 2 * DELAY, CONF_CALM},
    {"pages between blocks that stay", delay_of_pages_between_blocks, 3 * DELAY, CONF_CALM},
    {"units, of a thread that allocates runs", delay_for_a_thread_that_allocates_runs, 2 * DELAY,
     CONF_CALM},
    {"units, of a thread that only frees", delay_for_a_thread_that_only_frees, 3 * DELAY,
     CONF_CALM},
    {"units, of a thread that only frees what others left",
     delay_for_a_thread_that_only_frees_what_others_left, 3 * DELAY, CONF_CALM},
    {"units, of a thread that used what others left", delay_for_a_thread_that_used_what_others_left,
     3 * DELAY, CONF_CALM},
    {"units that became free later", delay_of_later_units, 2 * DELAY, CONF_CALM},
    {"a large block", delay_of_a_large_block, 2 * DELAY, CONF_CALM},
    {"a large block, of a thread that has no others", delay_for_a_thread_with_large_blocks_only,
     2 * DELAY, CONF_CALM},
    {"a large block that others are cut from", delay_of_what_blocks_are_cut_from, 2 * DELAY,
     CONF_CALM},
    {"what realloc leaves of a large block", delay_of_what_realloc_leaves, 2 * DELAY, CONF_CALM},
    {"superblocks of the pool", delay_of_the_pool, DELAY, CONF_CALM},
    {"what a thread frees again and again", falls_in_haste, DELAY, CONF},
    {"a heap that falls", calls_that_a_fall_takes, DELAY, CONF},
    {"a heap that grows again", falls_until_it_grows, DELAY, CONF},
    {"holes in trays", delay_of_holes_in_trays, 2 * DELAY, CONF_CALM},
    {"holes in trays, beside a thread", delay_of_holes_in_trays_beside_a_thread, 19 * DELAY,
     CONF_CALM},
    {"blocks that another thread freed", delay_of_freed_blocks_of_others, DELAY, CONF_CALM},
};

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome o = run_in_child(cases[i].run, cases[i].conf);
        if (o.status != 0 || o.value < DELAY || o.value > cases[i].most_ms) {
            fprintf(stderr, "%s: status %d, after %llu ms\n%s", cases[i].name, o.status,
                    (unsigned long long)o.value, o.output);
            return 1;
        }
    }
    return test_passed();
}
