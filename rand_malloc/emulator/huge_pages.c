/* huge_pages.c - see huge_pages.h; keys of /proc/vmstat as in the kernel's
 * Documentation/admin-guide/mm/transhuge.rst. */
#include "huge_pages.h"
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PAGES_OF_HUGE = 512,
    /* Readings lag by some pages per processor in older kernels; a huge page is never so few. */
    LEAST_EXCESS = PAGES_OF_HUGE / 2,
};

struct huge_pages huge_pages_read(void) {
    struct huge_pages seen = {0, 0};
    char key[64];
    uint64_t value = 0;
    FILE *file = fopen("/proc/vmstat", "re");
    while (file != NULL && fscanf(file, "%63s %" SCNu64, key, &value) == 2) {
        if (strcmp(key, "thp_fault_fallback") == 0)
            seen.fallbacks = value;
        if (strcmp(key, "thp_collapse_alloc") == 0)
            seen.collapses = value;
    }
    if (file != NULL)
        fclose(file);
    return seen;
}

struct huge_pages huge_pages_since(struct huge_pages before) {
    struct huge_pages now = huge_pages_read();
    return (struct huge_pages){now.fallbacks - before.fallbacks, now.collapses - before.collapses};
}

bool huge_pages_interfered(struct huge_pages during) {
    return during.fallbacks > 0 || during.collapses > 0;
}

uint64_t huge_pages_of_region(const struct run *run) {
    const struct outcome *outcome = run->outcome;
    const struct sample *samples =
        (const struct sample *)(const void *)((const char *)outcome + outcome->samples_offset);
    uint64_t before = outcome->begin_anonymous_bytes, faults = 0, n_huge = 0;
    for (uint64_t i = 0; i < run->workload->plan->n_samples; i++) {
        uint64_t own = samples[i].faults - faults;
        uint64_t grown = samples[i].anonymous_bytes > before
                             ? (samples[i].anonymous_bytes - before) / PAGE_BYTES
                             : 0;
        if (grown > own)
            n_huge += (grown - own + PAGES_OF_HUGE - 1 - LEAST_EXCESS) / (PAGES_OF_HUGE - 1);
        before = samples[i].anonymous_bytes;
        faults = samples[i].faults;
    }
    return n_huge * (PAGES_OF_HUGE - 1);
}
