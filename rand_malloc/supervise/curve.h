/* A curve of unknown length in constant memory.
 *
 * Points are appended in time order.  When the array is full, neighbouring
 * points are merged in pairs, each pair leaving its greater value, and from
 * then on each stored point stands for twice as many appended ones.  So at any
 * time n_points <= CURVE_POINTS, times rise strictly where the input's do, and
 * the greatest value ever appended is still on the curve.
 */
#ifndef SUPERVISE_CURVE_H
#define SUPERVISE_CURVE_H

#include <stddef.h>
#include <stdint.h>

enum {
    CURVE_POINTS = 400
};

struct curve_point {
    uint64_t time_ns; /* since the start of the program */
    uint64_t bytes;
};

struct curve {
    size_t n_points;            /* complete points, <= CURVE_POINTS */
    size_t stride;              /* appended points per stored point, a power of two */
    size_t n_pending;           /* appended points merged into `pending`, < stride */
    struct curve_point pending; /* greatest of the points not yet stored */
    struct curve_point points[CURVE_POINTS];
};

void curve_init(struct curve *curve);
void curve_append(struct curve *curve, uint64_t time_ns, uint64_t bytes);

/* Store what is pending; call once, after the last append. */
void curve_finish(struct curve *curve);

#endif
