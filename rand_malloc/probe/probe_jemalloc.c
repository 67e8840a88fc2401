/* probe_jemalloc.c - what jemalloc made of MALLOC_CONF, by mallctl.
 *
 * opt.* holds the request, of some options after clipping; the other names hold
 * what is in use: arenas.narenas counts the arena for huge blocks too.  mallctl
 * checks the size of the result, so each name carries its type; names that this
 * version does not have are left out of the report.
 *
 * Source: jemalloc(3), MALLCTL NAMESPACE; src/ctl.c for the undocumented ones.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "probe.h"

enum kind {
    BOOLEAN,
    UNSIGNED,
    SIZE,
    SIGNED,
    TEXT
};

enum {
    NAME_MAX_BYTES = 64
};

typedef int (*control)(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

static const struct {
    const char *name;
    enum kind kind;
} OPTIONS[] = {
    {"version", TEXT},
    {"opt.abort_conf", BOOLEAN},
    {"opt.background_thread", BOOLEAN},
    {"opt.cache_oblivious", BOOLEAN},
    {"opt.dirty_decay_ms", SIGNED},
    {"opt.lg_extent_max_active_fit", SIZE},
    {"opt.lg_tcache_flush_small_div", UNSIGNED},
    {"opt.lg_tcache_nslots_mul", SIGNED},
    {"opt.metadata_thp", TEXT},
    {"opt.muzzy_decay_ms", SIGNED},
    {"opt.narenas", UNSIGNED},
    {"opt.oversize_threshold", SIZE},
    {"opt.percpu_arena", TEXT},
    {"opt.retain", BOOLEAN},
    {"opt.tcache", BOOLEAN},
    {"opt.tcache_gc_delay_bytes", SIZE},
    {"opt.tcache_gc_incr_bytes", SIZE},
    {"opt.tcache_max", SIZE},
    {"opt.tcache_nslots_large", UNSIGNED},
    {"opt.tcache_nslots_small_max", UNSIGNED},
    {"opt.tcache_nslots_small_min", UNSIGNED},
    {"opt.thp", TEXT},
    {"arenas.dirty_decay_ms", SIGNED},
    {"arenas.muzzy_decay_ms", SIGNED},
    {"arenas.narenas", UNSIGNED},
    {"arenas.tcache_max", SIZE},
    {"background_thread", BOOLEAN},
    {"thread.tcache.enabled", BOOLEAN},
};

static void report_option(control read, const char *name, enum kind kind) {
    union {
        bool boolean;
        unsigned number;
        size_t size;
        ssize_t signed_size;
        const char *text;
    } value = {.size = 0};
    const size_t sizes[] = {sizeof(bool), sizeof(unsigned), sizeof(size_t), sizeof(ssize_t),
                            sizeof(const char *)};
    size_t size = sizes[kind];
    if (read(name, &value, &size, NULL, 0)) {
        return;
    }
    switch (kind) {
    case BOOLEAN:
        json_bool(&report, name, value.boolean);
        break;
    case UNSIGNED:
        json_integer(&report, name, value.number);
        break;
    case SIZE:
        json_integer(&report, name, value.size);
        break;
    case SIGNED:
        json_signed(&report, name, value.signed_size);
        break;
    case TEXT:
        json_text(&report, name, value.text);
        break;
    }
}

static size_t bin_size(control read, unsigned bin, const char *what) {
    char name[NAME_MAX_BYTES];
    size_t value = 0;
    size_t size = sizeof value;
    snprintf(name, sizeof name, "arenas.bin.%u.%s", bin, what);
    return read(name, &value, &size, NULL, 0) ? 0 : value;
}

static void report_bin_sizes(control read, unsigned n_bins, const char *name, const char *what) {
    json_open_list(&report, name);
    for (unsigned bin = 0; bin < n_bins; bin++) {
        json_integer(&report, NULL, bin_size(read, bin, what));
    }
    json_close_list(&report);
}

static void report_bins(control read) {
    unsigned n_bins = 0;
    size_t size = sizeof n_bins;
    if (read("arenas.nbins", &n_bins, &size, NULL, 0)) {
        return;
    }
    report_bin_sizes(read, n_bins, "bin_block_bytes", "size");
    report_bin_sizes(read, n_bins, "bin_slab_bytes", "slab_size");
}

void probe_jemalloc(void) {
    control read;
    *(void **)&read = dlsym(RTLD_DEFAULT, "mallctl");
    if (!read) {
        json_null(&report, "jemalloc");
        return;
    }
    json_open(&report, "jemalloc");
    for (size_t i = 0; i < sizeof OPTIONS / sizeof OPTIONS[0]; i++) {
        report_option(read, OPTIONS[i].name, OPTIONS[i].kind);
    }
    report_bins(read);
    json_close(&report);
}
