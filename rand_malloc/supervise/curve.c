/* A curve of unknown length in constant memory: see curve.h. */
#include "curve.h"

static struct curve_point greater(struct curve_point first, struct curve_point second) {
    return second.bytes > first.bytes ? second : first;
}

void curve_init(struct curve *curve) {
    curve->n_points = 0;
    curve->stride = 1;
    curve->n_pending = 0;
}

/* CURVE_POINTS is even, so every point finds its pair. */
static void halve(struct curve *curve) {
    _Static_assert(CURVE_POINTS % 2 == 0, "points are merged in pairs");
    for (size_t i = 0; i < CURVE_POINTS / 2; i++)
        curve->points[i] = greater(curve->points[2 * i], curve->points[2 * i + 1]);
    curve->n_points = CURVE_POINTS / 2;
    curve->stride *= 2;
}

static void store(struct curve *curve) {
    if (curve->n_points == CURVE_POINTS)
        halve(curve);
    curve->points[curve->n_points++] = curve->pending;
    curve->n_pending = 0;
}

void curve_append(struct curve *curve, uint64_t time_ns, uint64_t bytes) {
    struct curve_point point = {time_ns, bytes};
    curve->pending = curve->n_pending == 0 ? point : greater(curve->pending, point);
    if (++curve->n_pending >= curve->stride)
        store(curve);
}

void curve_finish(struct curve *curve) {
    if (curve->n_pending > 0)
        store(curve);
}
