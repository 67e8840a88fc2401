/* heap.c - peak, mean and curve of the heap; see heap.h.
 *
 * heap(t) = RssAnon(t) - LazyFree(t) - RssAnon(region's begin).  Pages given back with
 * MADV_FREE stay resident until the kernel wants them; LazyFree is read at a few
 * checkpoints and interpolated.  The mean is over the life of the process; a reading holds until
 * the next one, the last one to the end.  The peak is the largest of: the kernel's high-water mark
 * minus resident memory at the begin (it lags by up to 32 pages per processor, see
 * percpu_counter), all samples, and the tracer's readings; lazily freed pages count in
 * the peak, as they do for a memory limit.
 */
#include "heap.h"

#include <stdlib.h>

/* Fills the gaps (-1) between checkpoints of LazyFree linearly. */
static void interpolate_lazy(const struct sample *samples, uint64_t n_samples, double *lazy) {
    uint64_t known = 0;
    double known_value = 0;
    for (uint64_t i = 0; i < n_samples; i++) {
        if (samples[i].lazy_bytes < 0)
            continue;
        double value = (double)samples[i].lazy_bytes;
        for (uint64_t j = known; j < i; j++)
            lazy[j] =
                known_value + (value - known_value) * (double)(j - known) / (double)(i - known);
        lazy[i] = value;
        known = i;
        known_value = value;
    }
    for (uint64_t j = known; j < n_samples; j++)
        lazy[j] = known_value;
}

static double weighted_mean(const struct workload *workload, const double *curve) {
    const struct plan *plan = workload->plan;
    const struct sample_point *points = plan_at(plan, plan->samples_offset);
    double integral = 0, sum = 0;
    for (uint64_t i = 0; i < plan->n_samples; i++) {
        uint64_t from = points[i].time_ns;
        uint64_t until = i + 1 < plan->n_samples ? points[i + 1].time_ns : plan->end_ns;
        if (from < plan->begin_ns) /* of a process that began with a fork */
            from = plan->begin_ns;
        if (until > from)
            integral += curve[i] * (double)(until - from);
        sum += curve[i];
    }
    if (plan->end_ns > plan->begin_ns)
        return integral / (double)(plan->end_ns - plan->begin_ns);
    return plan->n_samples > 0 ? sum / (double)plan->n_samples : 0;
}

static void raise_peak(struct heap_figures *figures, uint64_t bytes, uint64_t baseline_bytes) {
    if (bytes > baseline_bytes && bytes - baseline_bytes > figures->peak_bytes)
        figures->peak_bytes = bytes - baseline_bytes;
}

static void find_peak(const struct run *run, const struct sample *samples,
                      struct heap_figures *figures) {
    const struct outcome *outcome = run->outcome;
    uint64_t at = 0;
    for (uint64_t i = 0; i < figures->n_samples; i++)
        if (samples[i].anonymous_bytes > samples[at].anonymous_bytes)
            at = i;
    uint64_t sampled = figures->n_samples > 0 ? samples[at].anonymous_bytes : 0;
    if (figures->n_samples > 0)
        figures->live_at_peak_bytes = run->workload->sample_live[at];
    if (run->traced.peak_anonymous_bytes > sampled)
        figures->live_at_peak_bytes = workload_live_during(run->workload, run->traced.peak_op);
    raise_peak(figures, sampled, outcome->baseline_anonymous_bytes);
    raise_peak(figures, run->traced.peak_anonymous_bytes, outcome->baseline_anonymous_bytes);
    raise_peak(figures, outcome->watermark_bytes, outcome->baseline_rss_bytes);
}

bool heap_figures(const struct run *run, struct heap_figures *figures) {
    const struct outcome *outcome = run->outcome;
    const struct sample *samples =
        (const struct sample *)(const void *)((const char *)outcome + outcome->samples_offset);
    uint64_t n_samples = run->workload->plan->n_samples;
    *figures = (struct heap_figures){.n_samples = n_samples};
    figures->curve = malloc((n_samples + 1) * sizeof(double));
    double *lazy = calloc(n_samples + 1, sizeof(double));
    bool is_enough = figures->curve != NULL && lazy != NULL;
    if (is_enough) {
        interpolate_lazy(samples, n_samples, lazy);
        for (uint64_t i = 0; i < n_samples; i++)
            figures->curve[i] = (double)samples[i].anonymous_bytes - lazy[i] -
                                (double)outcome->baseline_anonymous_bytes;
        figures->mean_bytes = weighted_mean(run->workload, figures->curve);
        if (figures->mean_bytes < 0) /* memory of the start-up was given back */
            figures->mean_bytes = 0;
        if (n_samples > 0 && figures->curve[n_samples - 1] > 0)
            figures->final_bytes = figures->curve[n_samples - 1];
        figures->lazy_bytes = n_samples > 0 ? (uint64_t)lazy[n_samples - 1] : 0;
        find_peak(run, samples, figures);
    }
    free(lazy);
    return is_enough;
}
