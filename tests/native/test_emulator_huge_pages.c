/* Pages that came with huge ones follow from made-up readings as computed by hand. */
#include "check.h"
#include "harness.h"
#include "huge_pages.h"
#include "run.h"

#include <stdio.h>

#define N_SAMPLES 5

struct outcome_with_samples {
    struct outcome outcome;
    struct sample samples[N_SAMPLES];
};

static uint64_t pages_of(const uint64_t resident_pages[N_SAMPLES],
                         const uint64_t faults[N_SAMPLES]) {
    static struct plan plan = {.n_samples = N_SAMPLES};
    static struct workload workload = {.plan = &plan};
    struct outcome_with_samples readings = {
        .outcome = {.begin_anonymous_bytes = 100 * PAGE_BYTES,
                    .samples_offset = offsetof(struct outcome_with_samples, samples)}};
    for (int i = 0; i < N_SAMPLES; i++)
        readings.samples[i] = (struct sample){resident_pages[i] * PAGE_BYTES, 0, faults[i]};
    struct run run = {.workload = &workload, .outcome = &readings.outcome};
    return huge_pages_of_region(&run);
}

int main(void) {
    require(pages_of((const uint64_t[]){110, 120, 130, 140, 150},
                     (const uint64_t[]){10, 20, 30, 40, 50}) == 0,
            "every page had its fault");
    require(pages_of((const uint64_t[]){100, 100, 100, 100, 100},
                     (const uint64_t[]){0, 0, 0, 0, 0}) == 0,
            "what the allocator held before came in no region");
    require(pages_of((const uint64_t[]){612, 612, 612, 612, 612},
                     (const uint64_t[]){1, 1, 1, 1, 1}) == 511,
            "one fault, one huge page");
    require(pages_of((const uint64_t[]){612, 100, 612, 100, 612},
                     (const uint64_t[]){1, 1, 2, 2, 3}) == UINT64_C(3) * 511,
            "given back and taken again counts again");
    require(pages_of((const uint64_t[]){1124, 1134, 1134, 1634, 1636},
                     (const uint64_t[]){2, 12, 12, 13, 15}) == UINT64_C(3) * 511,
            "two at once; pages of their own; one of which some pages went back");
    require(pages_of((const uint64_t[]){160, 220, 280, 340, 400},
                     (const uint64_t[]){0, 0, 0, 0, 0}) == 0,
            "readings that lag are no huge pages");
    require(!huge_pages_interfered((struct huge_pages){0, 0}), "nothing happened");
    require(huge_pages_interfered((struct huge_pages){1, 0}), "a fallback");
    require(huge_pages_interfered((struct huge_pages){0, 1}), "a collapse");
    return verdict();
}
