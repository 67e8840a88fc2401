/* libc_report.c - mallinfo2 and its relatives (malloc.h), which programs ask about their heap.
 *
 * The figures are those of exgen_get_stats: of heaps whose threads run they are read meanwhile, and
 * blocks in those threads' lists, or on their way home, count as in use.  Superblocks are what
 * glibc calls the arena, large blocks are its mmapped regions.  Settings are read once, from
 * EXGEN_CONF; what a program asks of mallopt are hints for glibc's heap, which change nothing here.
 * Only the libraries that replace malloc have these names.
 */
#include "base/platform.h"

#if EXGEN_LIBC_NAMES

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

#include "base/text.h"
#include "exgen.h"
#include "memory/layout.h"
#include "system/os.h"

#define EXPORT __attribute__((visibility("default")))

static struct exgen_stats get_stats(void) {
    struct exgen_stats stats;
    exgen_get_stats(&stats, sizeof stats);
    return stats;
}

/* Bytes of superblocks, those in the pool too. */
static size_t arena_bytes(const struct exgen_stats *stats) {
    return (stats->all_superblocks + stats->n_pooled) * layout.bytes;
}

/* Those of them that no block has; both are counted while others run. */
static size_t free_bytes(const struct exgen_stats *stats) {
    size_t arena = arena_bytes(stats);
    return arena > stats->all_block_bytes ? arena - stats->all_block_bytes : 0;
}

EXPORT struct mallinfo2 mallinfo2(void) {
    struct exgen_stats stats = get_stats();
    return (struct mallinfo2){
        .arena = arena_bytes(&stats),
        .hblks = stats.n_large,
        .hblkhd = stats.large_bytes,
        .uordblks = stats.all_block_bytes,
        .fordblks = free_bytes(&stats),
    };
}

static int at_most_int(size_t n) {
    return n < INT_MAX ? (int)n : INT_MAX;
}

/* glibc lets the figures overflow; here they stop at INT_MAX. */
EXPORT struct mallinfo mallinfo(void) {
    struct mallinfo2 info = mallinfo2();
    return (struct mallinfo){
        .arena = at_most_int(info.arena),
        .hblks = at_most_int(info.hblks),
        .hblkhd = at_most_int(info.hblkhd),
        .uordblks = at_most_int(info.uordblks),
        .fordblks = at_most_int(info.fordblks),
    };
}

static size_t n_given_back(void) {
    struct os_counters calls = os_read_counters();
    return calls.n_purges + calls.n_unmaps;
}

/* 1 if memory went back to the system, as in glibc; the pad is no matter. */
EXPORT int malloc_trim(size_t pad) {
    size_t before = n_given_back();
    (void)pad;
    exgen_purge();
    return n_given_back() > before;
}

/* 1, as from glibc, whatever the parameter is: to some programs 0 is a reason to end. */
EXPORT int mallopt(int parameter, int value) {
    (void)parameter;
    (void)value;
    return 1;
}

static void add_line(struct text *t, const char *name, size_t n) {
    text_string(t, name);
    text_decimal(t, n);
    text_string(t, "\n");
}

EXPORT void malloc_stats(void) {
    char buffer[512];
    struct text t = {buffer, sizeof buffer, 0};
    struct exgen_stats stats = get_stats();
    add_line(&t, "exgen: superblocks, bytes:     ", arena_bytes(&stats));
    add_line(&t, "exgen: blocks in use:          ", stats.all_blocks);
    add_line(&t, "exgen: their bytes:            ", stats.all_block_bytes);
    add_line(&t, "exgen: large blocks in use:    ", stats.n_large);
    add_line(&t, "exgen: their bytes:            ", stats.large_bytes);
    text_to_stderr(&t);
}

/* glibc's form (version 1), without its lists of sizes. */
EXPORT int malloc_info(int choices, FILE *stream) {
    struct exgen_stats stats = get_stats();
    size_t arena = arena_bytes(&stats);
    if (choices != 0) {
        errno = EINVAL;
        return -1;
    }
    int n = fprintf(stream,
                    "<malloc version=\"1\">\n"
                    "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
                    "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
                    "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
                    "<system type=\"current\" size=\"%zu\"/>\n"
                    "<aspace type=\"total\" size=\"%zu\"/>\n"
                    "</malloc>\n",
                    stats.all_superblocks + stats.n_pooled, free_bytes(&stats), stats.n_large,
                    stats.large_bytes, arena, stats.mapped_bytes);
    return n < 0 ? -1 : 0;
}

#endif
