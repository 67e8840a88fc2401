/* test_effects.c - every setting changes something that can be measured.
 *
 * Each scenario runs in a child under two configurations and returns a number;
 * the numbers must stand in the stated relation.  A setting of options.def
 * without a row here fails the test.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/options.h"
#include "child.h"
#include "exgen.h"
#include "heap/heap.h"
#include "memory/pool.h"
#include "test.h"
#include "thread/exchange.h"
#include "thread/registry.h"

enum {
    N_BLOCKS_MAX = 100000
};

static char *blocks[N_BLOCKS_MAX];

static void allocate_many(size_t n, size_t size) {
    for (size_t i = 0; i < n; i++) {
        blocks[i] = exgen_malloc(size);
        EXPECT(blocks[i] != NULL);
        memset(blocks[i], 1, size < 64 ? size : 64);
    }
}

static void free_many(size_t n) {
    for (size_t i = 0; i < n; i++)
        exgen_free(blocks[i]);
}

static struct slab *slab_with(const void *block) {
    return slab_of((uintptr_t)block);
}

static uint64_t usable(size_t size) {
    return exgen_malloc_usable_size(exgen_malloc(size));
}

/* --- layout --- */

static uint64_t superblocks_for_4_mib(void) {
    allocate_many(4096, 1024);
    return stats().n_superblocks;
}

#define USABLE_OF(size)                                                                            \
    static uint64_t usable_of_##size(void) {                                                       \
        return usable(size);                                                                       \
    }

USABLE_OF(17)
USABLE_OF(40)
USABLE_OF(513)
USABLE_OF(1030)
USABLE_OF(1500)
USABLE_OF(4368)
USABLE_OF(9000)

static uint64_t units_of_a_4_kib_slab(void) {
    return slab_with(exgen_malloc(4096))->n_units;
}

static uint64_t large_blocks_after_100000(void) {
    exgen_malloc(100000);
    return stats().n_large;
}

static uint64_t units_of_a_2_kib_slab(void) {
    return slab_with(exgen_malloc(2048))->n_units;
}

/* --- blocks --- */

static uint64_t carved_by_first_malloc(void) {
    return slab_with(exgen_malloc(64))->carved;
}

static uint64_t state_after_one_free_of_a_full_slab(void) {
    allocate_many(3000, 16);
    struct slab *slab = slab_with(blocks[1500]);
    EXPECT(slab->state == SLAB_ASLEEP);
    exgen_free(blocks[1500]);
    return slab->state;
}

static uint64_t slab_used_next(void) {
    allocate_many(5000, 16);
    struct slab *first = slab_with(blocks[1000]);
    struct slab *second = slab_with(blocks[2500]);
    EXPECT(first != second);
    exgen_free(blocks[1000]);
    exgen_free(blocks[2500]);
    for (;;) {
        struct slab *slab = slab_with(exgen_malloc(16));
        if (slab == first || slab == second)
            return slab == first;
    }
}

/* Which of three freed blocks, the last ones of the slab that is used. */
static uint64_t block_used_next(void) {
    size_t n = 3;
    allocate_many(n, 2048);
    for (; slab_with(blocks[n - 3]) != slab_with(blocks[n - 1]); n++)
        blocks[n] = exgen_malloc(2048);
    char **three = &blocks[n - 3];
    exgen_free(three[2]);
    exgen_free(three[0]);
    exgen_free(three[1]);
    for (;;) {
        char *block = exgen_malloc(2048);
        for (uint64_t i = 0; i < 3; i++)
            if (block == three[i])
                return i;
    }
}

/* --- return of memory --- */

static uint64_t empty_slabs_kept(void) {
    allocate_many(5000, 16);
    free_many(5000);
    return local.heap->bins[class_of(16)].n_empty;
}

static uint64_t superblocks_kept(void) {
    allocate_many(8000, 1024);
    free_many(8000);
    return stats().n_superblocks;
}

static uint64_t superblocks_pooled(void) {
    allocate_many(16000, 1024);
    free_many(16000);
    return pool_count();
}

/* Between a used block on either side, so that its superblock stays. */
static uint64_t purges_of_one_run(void) {
    allocate_many(3, 100000);
    exgen_free(blocks[1]);
    return stats().n_purges;
}

static uint64_t maps_by_purge_of_one_run(void) {
    allocate_many(3, 100000);
    size_t before = stats().n_maps;
    exgen_free(blocks[1]);
    return stats().n_maps - before;
}

static uint64_t purges_of_many_runs(void) {
    allocate_many(100, 100000);
    for (size_t i = 0; i < 100; i += 2)
        exgen_free(blocks[i]);
    /* Too large for the holes, so the peak would rise. */
    allocate_many(50, 200000);
    return stats().n_purges;
}

/* One of nine blocks stays in use, and with it each superblock. */
static uint64_t idle_units_after_a_fall(void) {
    allocate_many(100, 100000);
    for (size_t i = 0; i < 100; i++)
        if (i % 9 != 0)
            exgen_free(blocks[i]);
    EXPECT(exgen_validate_heap());
    return local.heap->n_dirty + (kept_bytes(local.heap) >> UNIT_SHIFT);
}

static uint64_t first_byte_after_purge(void) {
    allocate_many(3, 100000);
    char *middle = blocks[1];
    memset(middle, 7, 100000);
    exgen_free(middle);
    return (uint64_t)((volatile char *)middle)[50000];
}

/* --- large blocks --- */

static uint64_t maps_of_large_again(size_t first, size_t second) {
    exgen_free(exgen_malloc(first));
    size_t before = stats().n_maps;
    exgen_malloc(second);
    return stats().n_maps - before;
}

static uint64_t maps_of_2_mib_again(void) {
    return maps_of_large_again(2000000, 2000000);
}

static uint64_t usable_of_half_again(void) {
    exgen_free(exgen_malloc(2000000));
    return usable(1000000);
}

/* Two kept blocks, of which none is of use to a much larger one; whether they are still there. */
static uint64_t maps_of_2_mib_beside_9(void) {
    void *first = exgen_malloc(2000000);
    void *second = exgen_malloc(2000000);
    exgen_free(first);
    exgen_free(second);
    exgen_malloc(9000000);
    size_t before = stats().n_maps;
    exgen_malloc(2000000);
    return stats().n_maps - before;
}

static uint64_t large_blocks_after_growth(void) {
    exgen_realloc(exgen_realloc(NULL, 100000), 200000);
    return stats().n_large;
}

static uint64_t bytes_kept_of_one_block(void) {
    allocate_many(10, 100000);
    exgen_free(blocks[0]);
    return kept_bytes(local.heap);
}

static uint64_t bytes_kept_of_all_blocks(void) {
    allocate_many(10, 100000);
    for (size_t i = 0; i < 10; i++)
        exgen_free(blocks[i]);
    return kept_bytes(local.heap);
}

static uint64_t usable_after_realloc(void) {
    return exgen_malloc_usable_size(exgen_realloc(exgen_malloc(1000000), 2000000));
}

/* --- system --- */

/* Whether the flag stands in the kernel's description of a superblock. */
static uint64_t has_map_flag(const char *flag) {
    uintptr_t block = (uintptr_t)exgen_malloc(10);
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    int inside = 0;
    EXPECT(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long from;
        unsigned long to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = from <= block && block < to;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            return strstr(line, flag) != NULL;
    }
    return 2;
}

static uint64_t refuses_huge_pages(void) {
    return has_map_flag(" nh");
}

static uint64_t wants_huge_pages(void) {
    return has_map_flag(" hg");
}

static uint64_t wants_huge_pages_later(void) {
    for (size_t i = 0; i < 5000; i++)
        EXPECT(exgen_malloc(2000) != NULL);
    return has_map_flag(" hg");
}

static uint64_t wants_huge_pages_between_gaps(void) {
    for (size_t i = 0; i < 100; i++)
        EXPECT(exgen_malloc(100000) != NULL);
    return has_map_flag(" hg");
}

static uint64_t resident_pages_of_first_superblock(void) {
    const struct superblock *sb = superblock_of((uintptr_t)exgen_malloc(10));
    return test_resident_pages(superblock_start(sb), layout.bytes);
}

/* --- threads --- */

static void *free_ten(void *unused) {
    exgen_free(exgen_malloc(1));
    for (size_t i = 0; i < 10; i++)
        exgen_free(blocks[i]);
    return (void *)(local.heap == NULL ? NULL : unused);
}

static pthread_barrier_t freed;
static pthread_barrier_t looked;

static void *free_ten_and_wait(void *unused) {
    free_ten(unused);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&looked);
    return NULL;
}

/* Where ten blocks that another thread has freed are while it still runs: in the owner's
 * inbox, or, with `offered`, where any thread may take them. */
static uint64_t remote_frees_arrived(bool offered) {
    pthread_t thread;
    allocate_many(10, 100);
    pthread_barrier_init(&freed, NULL, 2);
    pthread_barrier_init(&looked, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, free_ten_and_wait, NULL) == 0);
    pthread_barrier_wait(&freed);
    uint64_t arrived = offered ? exchange_has_any()
                               : __atomic_load_n(&local.heap->inbox, __ATOMIC_ACQUIRE) != NULL;
    pthread_barrier_wait(&looked);
    pthread_join(thread, NULL);
    return arrived;
}

static uint64_t remote_frees_offered(void) {
    return remote_frees_arrived(true);
}

static uint64_t remote_frees_sent_home(void) {
    return remote_frees_arrived(false);
}

static void *leave_a_block(void *where) {
    *(void **)where = exgen_malloc(100);
    return local.heap;
}

static uint64_t second_thread_gets_first_heap(void) {
    void *left[2];
    exgen_malloc(1);
    void *first = run_thread(leave_a_block, &left[0]);
    void *second = run_thread(leave_a_block, &left[1]);
    return first == second;
}

static uint64_t orphans_left_when_memory_is_needed(void) {
    void *left;
    exgen_malloc(1);
    run_thread(leave_a_block, &left);
    allocate_many(4096, 1024);
    return stats().n_orphans;
}

/* Blocks of 1 KiB until there are no more, at most 64 MiB. */
static uint64_t blocks_under_bound(void) {
    uint64_t n = 0;
    errno = 0;
    while (n < 65536 && (blocks[n] = exgen_malloc(1024)) != NULL)
        n++;
    EXPECT(n == 65536 || errno == ENOMEM);
    /* What was freed can be had again, in blocks of another size. */
    free_many(n);
    EXPECT(exgen_malloc(5000) != NULL);
    EXPECT(exgen_validate_heap());
    return n;
}

/* --- safety and reports --- */

static uint64_t byte_of_freed_block(void) {
    char *p = exgen_malloc(100);
    memset(p, 7, 100);
    exgen_free(p);
    return ((volatile unsigned char *)p)[50];
}

static uint64_t mallocs_until_reuse(void) {
    char *p = exgen_malloc(48);
    uint64_t n = 0;
    void *q = NULL;
    exgen_free(p);
    for (; n < 1000 && q != p; n++) {
        q = exgen_malloc(48);
        exgen_free(q);
    }
    return n;
}

static uint64_t blocks_in_ascending_order(void) {
    uint64_t n = 0;
    allocate_many(50, 48);
    for (size_t i = 1; i < 50; i++)
        n += blocks[i] > blocks[i - 1];
    return n;
}

static uint64_t takes_slow_path(void) {
    exgen_malloc(1);
    return local.number == OWNER_NOBODY;
}

static void *count_from_another(void *n) {
    exgen_free(exgen_malloc(1));
    *(uint64_t *)n = count_threads();
    return NULL;
}

/* As a second thread sees them. */
static uint64_t threads_of_the_process(void) {
    uint64_t n = 0;
    exgen_malloc(1);
    run_thread(count_from_another, &n);
    return n;
}

static uint64_t starts(void) {
    return exgen_malloc(1) != NULL;
}

static const struct effect {
    const char *setting;
    scenario run;
    const char *others; /* settings, each with a comma behind it */
    const char *low;    /* the value under which the scenario returns less, */
    const char *high;   /* and that under which it returns more */
} effects[] = {
    {"superblock_size", superblocks_for_4_mib, "", "8388608", "65536"},
    {"quantum", usable_of_17, "", "16", "128"},
    {"class_steps", usable_of_513, "", "8", "1"},
    {"coarse_steps", usable_of_1500, "", "16", "1"},
    {"class_over", usable_of_1030, "", "1", "0"},
    {"class_over", usable_of_4368, "", "2", "1"},
    {"small_max", usable_of_4368, "", "32768", "2048"},
    {"tray_max", usable_of_9000, "", "32768", "0"},
    {"tray_step", usable_of_9000, "", "1024", "2048"},
    {"classes", usable_of_40, "", "16+48+2048", "16+32+512+2048"},
    {"classes", usable_of_4368, "", "2048+4096+4416", "2048+4096"},
    {"classes", units_of_a_2_kib_slab, "", "1024+2048@1+4096", "1024+2048@7+4096"},
    {"slab_blocks", units_of_a_4_kib_slab, "", "1", "16,slab_start_units:0"},
    {"slab_units_max", units_of_a_4_kib_slab, "slab_blocks:256,slab_start_units:0,", "2", "8"},
    {"slab_start_units", units_of_a_4_kib_slab, "", "2", "0"},
    {"large_min", large_blocks_after_100000, "", "262144", "65536"},
    {"commit_step", carved_by_first_malloc, "", "64", "8192"},
    {"merge_percent", state_after_one_free_of_a_full_slab, "", "50", "0"},
    {"slab_order", slab_used_next, "merge_percent:0,", "lifo", "fifo"},
    {"block_order", block_used_next, "", "lifo", "fifo"},
    {"block_order", block_used_next, "", "address", "lifo"},
    {"empty_slabs", empty_slabs_kept, "", "0", "3"},
    {"empty_superblocks", superblocks_kept, "fall_percent:0,", "0", "4"},
    {"pool_superblocks", superblocks_pooled, "", "0", "3"},
    {"purge_delay", purges_of_one_run, "", "60000", "0"},
    {"dirty_percent", purges_of_many_runs, "purge_delay:60000,dirty_min:16384,", "1000", "1"},
    {"dirty_min", purges_of_many_runs, "purge_delay:60000,dirty_percent:1,", "1073741824", "16384"},
    {"fall_percent", idle_units_after_a_fall, "purge_delay:60000,", "20", "0"},
    {"purge_min", purges_of_one_run, "purge_delay:0,", "1048576", "4096"},
    {"purge_how", first_byte_after_purge, "purge_delay:0,", "dontneed", "free"},
    {"purge_how", purges_of_one_run, "purge_delay:0,", "never", "free"},
    {"purge_how", maps_by_purge_of_one_run, "purge_delay:0,", "dontneed", "unmap"},
    {"large_cache_bytes", maps_of_2_mib_beside_9, "large_cache_percent:0,", "8000000", "4096"},
    {"large_cache_bytes", maps_of_2_mib_again, "large_cache_percent:400,", "4096", "0"},
    {"large_cache_count", maps_of_2_mib_again, "", "1", "0"},
    {"large_cache_slack", usable_of_half_again, "", "50", "150"},
    {"large_cache_percent", maps_of_2_mib_beside_9, "large_cache_bytes:4096,", "100", "0"},
    {"grow_min", large_blocks_after_growth, "", "1000000", "150000"},
    {"kept_min", bytes_kept_of_one_block, "kept_percent:0,", "4096", "1048576"},
    {"kept_percent", bytes_kept_of_one_block, "kept_min:4096,", "0", "100"},
    {"kept_percent", bytes_kept_of_all_blocks, "kept_min:0,fall_percent:0,", "99", "100"},
    {"realloc_slack", usable_after_realloc, "", "0", "50"},
    {"huge_pages", refuses_huge_pages, "", "system", "never"},
    {"huge_pages", wants_huge_pages, "", "system", "always"},
    {"huge_pages", wants_huge_pages_later, "", "system", "grown,huge_min:4194304"},
    {"huge_pages", wants_huge_pages_between_gaps, "", "grown,huge_min:4194304", "always"},
    {"huge_min", wants_huge_pages_later, "", "134217728", "4194304"},
    {"prefault", resident_pages_of_first_superblock, "", "false", "true"},
    {"remote_batch", remote_frees_offered, "", "100", "1"},
    {"exchange_bytes", remote_frees_sent_home, "remote_batch:1,", "65536", "0"},
    {"adopt", second_thread_gets_first_heap, "", "never", "thread"},
    {"adopt", orphans_left_when_memory_is_needed, "", "any", "thread"},
    {"timer", threads_of_the_process, "", "0", "3600000"},
    {"thread_max", blocks_under_bound, "", "4194304", "8388608"},
    {"thread_max", blocks_under_bound, "", "8388608", "0"},
    {"junk", byte_of_freed_block, "", "false", "true"},
    {"quarantine", mallocs_until_reuse, "", "0", "60000"},
    {"secure", blocks_in_ascending_order, "", "true", "false"},
    {"check", takes_slow_path, "", "false", "true"},
};

static uint64_t run_with(const struct effect *e, const char *value) {
    char conf[128];
    snprintf(conf, sizeof conf, "%s%s:%s", e->others, e->setting, value);
    struct outcome o = run_in_child(e->run, conf);
    fprintf(stderr, "%s gives %llu %s\n", conf, (unsigned long long)o.value, o.output);
    EXPECT(o.status == 0 && o.output[0] == '\0');
    return o.value;
}

static void values_stand_in_relation(const struct effect *e) {
    EXPECT(run_with(e, e->low) < run_with(e, e->high));
}

static void bad_entries_end_the_program_if_asked(void) {
    struct outcome kind = run_in_child(starts, "purge_dealy:1");
    struct outcome strict = run_in_child(starts, "purge_dealy:1,abort_conf:true");
    EXPECT(kind.status == 0 && kind.value == 1);
    EXPECT(strstr(kind.output, "exgen: EXGEN_CONF: purge_dealy:1: no such setting") == kind.output);
    EXPECT(WIFSIGNALED(strict.status) && WTERMSIG(strict.status) == SIGABRT);
    EXPECT(strstr(strict.output, "\nexgen: EXGEN_CONF is not valid\n") != NULL);
}

static void configuration_is_printed_if_asked(void) {
    struct outcome o = run_in_child(starts, "print_conf:true,purge_delay:123");
    EXPECT(o.status == 0);
    EXPECT(strstr(o.output, "exgen: configuration {") == o.output);
    EXPECT(strstr(o.output, "\"purge_delay\":123") != NULL);
}

/* Here or, of what only the shared libraries do, in test_deepbind.c. */
static void every_setting_has_a_row(void) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        int found = strcmp(option_list[i].name, "abort_conf") == 0 ||
                    strcmp(option_list[i].name, "deepbind") == 0 ||
                    strcmp(option_list[i].name, "print_conf") == 0;
        for (size_t k = 0; k < sizeof effects / sizeof *effects; k++)
            found = found || strcmp(effects[k].setting, option_list[i].name) == 0;
        if (!found)
            fprintf(stderr, "no row for %s\n", option_list[i].name);
        EXPECT(found);
    }
}

/* What QEMU's user emulation keeps from the kernel has no effect to be seen. */
static int is_lost_in_emulation(const char *setting) {
    return strncmp(setting, "huge_", 5) == 0;
}

/* Whether the usable sizes of the blocks in use add up, and nothing is counted where nothing is. */
static uint64_t bytes_miscounted(void) {
    size_t expected = exgen_malloc_usable_size(exgen_malloc(100));
    expected += exgen_malloc_usable_size(exgen_malloc(5000));
    exgen_free(exgen_malloc(100));
    return stats().n_blocks != 2 || stats().block_bytes != expected;
}

/* What a block leaves mapped that grew out of its superblock; the first tries the system out. */
static uint64_t mapped_by_a_block_that_grew(void) {
    void *block = exgen_malloc(200000);
    size_t before = stats().mapped_bytes;
    exgen_free(exgen_realloc(block, 2000000));
    exgen_purge();
    return stats().mapped_bytes - before;
}

static void statistics_are_exact(void) {
    struct outcome o = run_in_child(bytes_miscounted, "");
    EXPECT(o.status == 0 && o.value == 0);
    o = run_in_child(bytes_miscounted, "quarantine:256");
    EXPECT(o.status == 0 && o.value == 0);
    o = run_in_child(mapped_by_a_block_that_grew, "");
    EXPECT(o.status == 0 && o.value == 0);
}

static pthread_key_t late_key;

static void leave_blocks(void *unused) {
    (void)unused;
    for (size_t i = 0; i < 20; i++)
        blocks[i] = exgen_malloc(100);
}

static void *leave_blocks_late(void *unused) {
    pthread_setspecific(late_key, blocks);
    exgen_malloc(1);
    return unused;
}

static uint64_t heaps_with_late_blocks(void) {
    exgen_malloc(1);
    EXPECT(pthread_key_create(&late_key, leave_blocks) == 0);
    run_thread(leave_blocks_late, NULL);
    return registry_count();
}

int main(int count, char **arguments) {
    int emulated = count == 2 && strcmp(arguments[1], "emulated") == 0;
    every_setting_has_a_row();
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
        if (emulated && is_lost_in_emulation(effects[i].setting))
            printf("%s: skipped, not passed on by the emulator\n", effects[i].setting);
        else
            values_stand_in_relation(&effects[i]);
    }
    bad_entries_end_the_program_if_asked();
    configuration_is_printed_if_asked();
    statistics_are_exact();
    EXPECT(run_well(heaps_with_late_blocks, "adopt:never") == 2);
    return test_passed();
}
