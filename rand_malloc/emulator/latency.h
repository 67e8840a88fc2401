/* latency.h - a log-linear histogram of durations, and the clock that feeds it.
 *
 * A value falls into one of 2^5 equal steps of its power of two, so every percentile is
 * right to 1/32 (3 %) at any magnitude, in fixed memory and without a division.  The
 * layout is that of HdrHistogram (Tene, hdrhistogram.org) with 5 bits of precision.
 *
 * The ticks are the time-stamp counter of x86-64, which runs at a constant rate in
 * all processors since 2008 ("invariant TSC", Intel SDM volume 3, 18.17.1); the
 * region's length in ticks and in ns gives the rate.
 */
#ifndef RAND_MALLOC_LATENCY_H
#define RAND_MALLOC_LATENCY_H

#include "plan.h"

static inline uint64_t latency_ticks(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

/* Bucket of a value, below LATENCY_BUCKETS; ascending. */
static inline uint32_t histogram_bucket(uint64_t value) {
    if (value < (1u << LATENCY_STEP_BITS))
        return (uint32_t)value;
    uint32_t shift = 63u - (uint32_t)__builtin_clzll(value) - LATENCY_STEP_BITS;
    return ((shift + 1) << LATENCY_STEP_BITS) +
           (uint32_t)((value >> shift) & ((1u << LATENCY_STEP_BITS) - 1));
}

static inline void histogram_add(struct histogram *histogram, uint64_t value) {
    histogram->counts[histogram_bucket(value)]++;
    histogram->sum += value;
    if (value > histogram->max)
        histogram->max = value;
}

/* The largest value of a bucket. */
uint64_t histogram_bucket_top(uint32_t bucket);

void histogram_merge(struct histogram *into, const struct histogram *from);

/* The smallest value with at least `share` of all values at or below it, as the top of
 * its bucket and never above the maximum; share in (0, 1].  0 for an empty histogram. */
uint64_t histogram_percentile(const struct histogram *histogram, double share);

#endif
