/* The curve keeps its bound, its order and its greatest value, whatever is appended. */
#include <stdbool.h>
#include <stdio.h>

#include "curve.h"

static bool keeps_its_promises(size_t n, size_t peak_at) {
    static struct curve curve;
    curve_init(&curve);
    for (size_t i = 0; i < n; i++)
        curve_append(&curve, i + 1, i == peak_at ? 1000000 : i % 100);
    curve_finish(&curve);
    if (curve.n_points > CURVE_POINTS || (n > 0 && curve.n_points == 0))
        return false;
    bool has_peak = false;
    for (size_t i = 0; i < curve.n_points; i++) {
        has_peak = has_peak ||
                   (curve.points[i].bytes == 1000000 && curve.points[i].time_ns == peak_at + 1);
        if (i > 0 && curve.points[i].time_ns <= curve.points[i - 1].time_ns)
            return false;
    }
    return has_peak || peak_at >= n;
}

int main(void) {
    int n_failed = 0;
    for (size_t n = 0; n < 5000; n += 37) {
        size_t peaks[] = {0, n / 2, n > 0 ? n - 1 : 0};
        for (size_t i = 0; i < 3; i++) {
            if (!keeps_its_promises(n, peaks[i])) {
                fprintf(stderr, "curve of %zu points, peak at %zu: broken\n", n, peaks[i]);
                n_failed++;
            }
        }
    }
    return n_failed == 0 ? 0 : 1;
}
