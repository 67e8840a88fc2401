/* report.c - statistics, configuration, validation and leak check of exgen.h.
 *
 * Nothing is counted on the paths of malloc and free: what can be known is
 * summed up here by walking, so a snapshot costs time in proportion to the
 * number of slabs, and programs that take none pay nothing.
 */
#include <string.h>

#include "base/options.h"
#include "base/text.h"
#include "exgen.h"
#include "heap/sparse.h"
#include "heap/supply.h"
#include "heap/validate.h"
#include "heap/visit.h"
#include "memory/large.h"
#include "memory/nothing.h"
#include "memory/pool.h"
#include "system/os.h"
#include "thread/idle.h"
#include "thread/quarantine.h"
#include "thread/registry.h"
#include "thread/remote.h"
#include "thread/thread.h"

#define EXPORT __attribute__((visibility("default")))

/* Blocks that threads freed, ended ones too, back into their slabs; `heap` is the calling thread's,
 * NULL if it has none. */
static void bring_home(struct heap *heap, uint64_t now_ms) {
    if (heap != NULL) {
        quarantine_flush(heap);
        remote_return_lists(heap, &local);
    }
    thread_collect(now_ms, SIZE_MAX);
    remote_send_all_home(heap);
    thread_collect(now_ms, SIZE_MAX);
    if (heap != NULL)
        remote_drain_slowly(heap, SIZE_MAX);
}

EXPORT void exgen_get_stats(struct exgen_stats *stats, size_t size) {
    thread_return_parked(); /* so that what is said of ended threads is exact */
    struct os_counters os = os_read_counters();
    struct exgen_stats s = {
        .mapped_bytes = os.mapped_bytes,
        .mapped_peak_bytes = os.mapped_peak_bytes,
        .n_maps = os.n_maps,
        .n_unmaps = os.n_unmaps,
        .n_purges = os.n_purges,
        .n_superblocks = local.heap != NULL ? local.heap->n_superblocks : 0,
        .n_pooled = pool_count(),
        .n_orphans = registry_count_orphans(),
    };
    if (local.heap != NULL) {
        heap_enter(local.heap);
        heap_count(local.heap, &local, &s.n_blocks, &s.block_bytes);
        heap_leave(local.heap);
    }
    struct superblock_counts others = superblock_count_others(local.heap);
    s.all_superblocks = s.n_superblocks + others.n_superblocks;
    s.all_blocks = s.n_blocks + others.n_blocks;
    s.all_block_bytes = s.block_bytes + others.block_bytes;
    large_count(&s.n_large, &s.large_bytes);
    memcpy(stats, &s, size < sizeof s ? size : sizeof s);
}

EXPORT size_t exgen_config_json(char *buffer, size_t capacity) {
    struct text t = {buffer, capacity, 0};
    bool has_started = allocator_start();
    if (capacity > 0)
        buffer[0] = '\0';
    text_string(&t, "{\"library\":\"");
    text_string(&t, THREADS ? "exgen" : "exgen-st");
    text_string(&t, "\",\"version\":\"" EXGEN_VERSION "\",\"options\":");
    options_write_json(&t, &options);
    text_string(&t, ",\"derived\":{\"n_classes\":");
    text_decimal(&t, classes.n_classes);
    text_string(&t, ",\"largest_small_bytes\":");
    text_decimal(&t, classes.largest);
    text_string(&t, ",\"largest_tray_bytes\":");
    text_decimal(&t, tray_layout.largest);
    text_string(&t, ",\"largest_run_bytes\":");
    text_decimal(&t, heap_largest_run());
    text_string(&t, ",\"most_slab_units\":");
    text_decimal(&t, size_class_most_units(layout.n_units));
    text_string(&t, ",\"most_batch\":");
    text_decimal(&t, has_started ? remote_most_batch() : 0);
    text_string(&t, "}}");
    return t.length;
}

EXPORT int exgen_validate_heap(void) {
    bool is_valid = true;
    if (local.heap != NULL) {
        heap_enter(local.heap);
        is_valid = heap_is_valid(local.heap);
        heap_leave(local.heap);
    }
    return is_valid && registry_is_valid() && superblock_count_others(local.heap).plausible &&
           large_is_valid();
}

static void report_leak(const char *what, size_t n, size_t bytes) {
    char buffer[128];
    struct text t = {buffer, sizeof buffer, 0};
    if (n == 0)
        return;
    text_string(&t, "exgen: still in use: ");
    text_decimal(&t, n);
    text_string(&t, what);
    text_decimal(&t, bytes);
    text_string(&t, " bytes\n");
    text_to_stderr(&t);
}

EXPORT size_t exgen_check_leaks(int report) {
    size_t n_small = 0;
    size_t small_bytes = 0;
    size_t n_large = 0;
    size_t large_bytes = 0;
    if (local.heap != NULL) {
        heap_enter(local.heap);
        bring_home(local.heap, os_clock_ms());
        heap_count(local.heap, &local, &n_small, &small_bytes);
        heap_leave(local.heap);
    } else {
        bring_home(NULL, os_clock_ms());
    }
    large_count(&n_large, &large_bytes);
    size_t n_nothing = nothing_count();
    struct superblock_counts others = superblock_count_others(local.heap);
    if (report) {
        report_leak(" blocks of this thread's heap, ", n_small, small_bytes);
        report_leak(" blocks of other heaps, ", others.n_blocks, others.block_bytes);
        report_leak(" large blocks, ", n_large, large_bytes);
        report_leak(" blocks of size 0, ", n_nothing, 0);
    }
    return n_small + others.n_blocks + n_large + n_nothing;
}

EXPORT void exgen_purge(void) {
    thread_expect_only();
    thread_return_parked();
    if (local.heap != NULL) {
        heap_enter(local.heap);
        bring_home(local.heap, UINT64_MAX);
        heap_trim(local.heap, SIZE_MAX);
        sparse_give_back(local.heap);
        supply_purge_all(local.heap);
        heap_leave(local.heap);
    } else {
        bring_home(NULL, UINT64_MAX);
    }
    idle_give_back_all(local.heap);
    large_purge_all();
    pool_empty();
}
