/* probe_tcmalloc.c - what gperftools' tcmalloc made of its environment.
 *
 * Numeric properties come from the C extension interface; the release rate and
 * the brk switch from the exported flag variables where the library exports
 * them.  The transfer batch has no reader: it is the number of objects that the
 * thread cache gains when it runs empty, which grows by one with every miss up
 * to the batch.  A fresh span may hold fewer, so the central list is filled
 * first.  The batch is also bounded by 64 KiB per transfer, so blocks of
 * 1024 bytes show batches up to 64 and say "at least 64" above.  That takes as long as
 * all the rest, so the batch is null unless the environment asks for one.
 *
 * Source: gperftools src/thread_cache.cc FetchFromCentralCache, src/common.cc NumMoveSize.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe.h"

enum {
    BATCH_BLOCK_BYTES = 1024,
    BATCH_MAX = 64,      /* (64 << 10) / BATCH_BLOCK_BYTES */
    BATCH_BLOCKS = 2200, /* above 1 + 2 + ... + BATCH_MAX, the slow start */
    STEADY_MISSES = 4    /* transfers without a greater gain: the batch is reached */
};

typedef int (*property_reader)(const char *name, size_t *value);

#define FLAG(type, length, name)                                                                   \
    "_ZN" length "FLAG__namespace_do_not_use_directly_use_DECLARE_" type "_instead" name

static void report_property(property_reader read, const char *name) {
    size_t value = 0;
    if (read(name, &value)) {
        json_integer(&report, name, value);
    } else {
        json_null(&report, name);
    }
}

/* Leave many free blocks in the central list, more than the thread cache may keep. */
static void fill_central_list(void) {
    static void *blocks[BATCH_BLOCKS];
    for (size_t i = 0; i < BATCH_BLOCKS; i++) {
        blocks[i] = malloc(BATCH_BLOCK_BYTES);
    }
    for (size_t i = 0; i < BATCH_BLOCKS; i++) {
        free(blocks[i]);
    }
}

/* Greatest number of blocks that one transfer brought, 0 if it cannot be seen. */
static size_t measure_batch(property_reader read) {
    static const void *kept; /* latest block; none is freed, so that every transfer is seen */
    const char *cache = "tcmalloc.current_total_thread_cache_bytes";
    fill_central_list();
    size_t batch = 0;
    for (int n_steady = 0; n_steady < STEADY_MISSES && batch < BATCH_MAX;) {
        size_t before = 0;
        size_t after = 0;
        const bool is_read = read(cache, &before);
        kept = malloc(BATCH_BLOCK_BYTES);
        if (!is_read || !kept || !read(cache, &after)) {
            return 0;
        }
        if (after < before) {
            continue; /* served by the thread cache */
        }
        const size_t gain = (after - before) / BATCH_BLOCK_BYTES + 1;
        n_steady = gain > batch ? 0 : n_steady + 1;
        batch = gain > batch ? gain : batch;
    }
    return batch;
}

static void report_flags(void) {
    const double *rate =
        dlsym(RTLD_DEFAULT, FLAG("double", "62", "27FLAGS_tcmalloc_release_rateE"));
    const bool *skip_sbrk = dlsym(RTLD_DEFAULT, FLAG("bool", "60", "22FLAGS_malloc_skip_sbrkE"));
    char infinite[16]; /* JSON has no infinity */
    if (rate && !isfinite(*rate)) {
        snprintf(infinite, sizeof infinite, "%g", *rate);
        json_text(&report, "release_rate", infinite);
    } else {
        json_number(&report, "release_rate", rate ? *rate : NAN);
    }
    if (skip_sbrk) {
        json_bool(&report, "skip_sbrk", *skip_sbrk);
    } else {
        json_null(&report, "skip_sbrk");
    }
}

void probe_tcmalloc(void) {
    property_reader read;
    *(void **)&read = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
    const char *(*version)(int *major, int *minor, const char **patch);
    *(void **)&version = dlsym(RTLD_DEFAULT, "tc_version");
    if (!read || !version) {
        json_null(&report, "tcmalloc");
        return;
    }
    int major = 0;
    int minor = 0;
    const char *patch = "";
    json_open(&report, "tcmalloc");
    json_text(&report, "version", version(&major, &minor, &patch));
    report_property(read, "tcmalloc.max_total_thread_cache_bytes");
    report_property(read, "tcmalloc.aggressive_memory_decommit");
    report_flags();
    if (getenv("TCMALLOC_TRANSFER_NUM_OBJ")) {
        json_integer(&report, "transfer_batch", measure_batch(read));
    } else {
        json_null(&report, "transfer_batch");
    }
    json_close(&report);
}
