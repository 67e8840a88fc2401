/* Percentiles of the histogram are right to 1/32, never above the maximum. */
#include "latency.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_failed;

static void require(bool is_true, const char *what, uint64_t value) {
    if (is_true)
        return;
    n_failed++;
    fprintf(stderr, "%s: %" PRIu64 "\n", what, value);
}

static void check_buckets(void) {
    uint32_t last = 0;
    for (uint64_t value = 0; value < UINT64_MAX / 2; value += 1 + value / 50) {
        uint32_t bucket = histogram_bucket(value);
        require(bucket >= last && bucket < LATENCY_BUCKETS, "buckets do not ascend", value);
        require(histogram_bucket_top(bucket) >= value, "a value is above its bucket", value);
        require(histogram_bucket_top(bucket) - value <= value / 32, "a bucket is too wide", value);
        require(bucket == 0 || histogram_bucket_top(bucket - 1) < value ||
                    histogram_bucket(histogram_bucket_top(bucket - 1)) == bucket - 1,
                "buckets overlap", value);
        last = bucket;
    }
    require(histogram_bucket(UINT64_MAX) == LATENCY_BUCKETS - 1, "the last bucket is not used",
            UINT64_MAX);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Against the exact percentile of sorted values. */
static void check_percentiles(void) {
    static struct histogram histogram, half;
    static uint64_t values[5000];
    static const double SHARES[] = {0.5, 0.9, 0.99, 0.999, 1.0};
    uint64_t state = 7;
    for (size_t i = 0; i < 5000; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        values[i] = (state >> 40) >> (state >> 20) % 20;
        histogram_add(i % 2 ? &half : &histogram, values[i]);
    }
    histogram_merge(&histogram, &half);
    qsort(values, 5000, sizeof values[0], compare);
    for (size_t i = 0; i < sizeof SHARES / sizeof SHARES[0]; i++) {
        uint64_t exact = values[(size_t)(SHARES[i] * 5000 + 0.999999) - 1];
        uint64_t found = histogram_percentile(&histogram, SHARES[i]);
        require(found >= exact && found - exact <= exact / 32 && found <= values[4999],
                "a percentile is wrong", (uint64_t)(SHARES[i] * 1000));
    }
    require(histogram.max == values[4999], "the maximum is not exact", histogram.max);
}

int main(void) {
    static struct histogram empty;
    check_buckets();
    check_percentiles();
    require(histogram_percentile(&empty, 0.5) == 0, "an empty histogram has values", 0);
    if (n_failed == 0)
        puts("passed");
    return n_failed != 0;
}
