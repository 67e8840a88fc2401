/* latency.c - percentiles of the histogram; see latency.h. */
#include "latency.h"

uint64_t histogram_bucket_top(uint32_t bucket) {
    uint32_t row = bucket >> LATENCY_STEP_BITS;
    uint64_t step = bucket & ((1u << LATENCY_STEP_BITS) - 1);
    if (row == 0)
        return step;
    uint64_t base = (UINT64_C(1) << LATENCY_STEP_BITS) + step;
    return (base << (row - 1)) + ((UINT64_C(1) << (row - 1)) - 1);
}

void histogram_merge(struct histogram *into, const struct histogram *from) {
    for (uint32_t bucket = 0; bucket < LATENCY_BUCKETS; bucket++)
        into->counts[bucket] += from->counts[bucket];
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
}

uint64_t histogram_percentile(const struct histogram *histogram, double share) {
    uint64_t total = 0, below = 0;
    for (uint32_t bucket = 0; bucket < LATENCY_BUCKETS; bucket++)
        total += histogram->counts[bucket];
    for (uint32_t bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
        below += histogram->counts[bucket];
        if (below > 0 && (double)below >= share * (double)total) {
            uint64_t top = histogram_bucket_top(bucket);
            return top < histogram->max ? top : histogram->max;
        }
    }
    return histogram->max;
}
