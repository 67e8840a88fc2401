/* Mean, peak and curve follow from made-up readings as computed by hand. */
#include "check.h"
#include "harness.h"
#include "heap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_near(double value, double expected) {
    return fabs(value - expected) < 1e-6 * (1 + fabs(expected));
}

/* Readings after operations at 0, 2, 4 and 6 ms of a trace that ends at 10 ms. */
#define N_SAMPLES 4

static struct trace_event events[N_SAMPLES] = {
    {.time_ns = 0, .size = 100, .slot = 0, .op = TRACE_MALLOC},
    {.time_ns = 2000000, .size = 200, .slot = 1, .op = TRACE_MALLOC},
    {.time_ns = 4000000, .size = 300, .slot = 2, .op = TRACE_MALLOC},
    {.time_ns = 6000000, .slot = 0, .op = TRACE_FREE},
};

struct outcome_with_samples {
    struct outcome outcome;
    struct sample samples[N_SAMPLES];
};

static void make_plan(const struct trace_event *planned, uint64_t duration_ns,
                      struct trace_life life, struct workload *workload) {
    struct trace_info info = {.n_threads = 1,
                              .n_slots = 3,
                              .n_events = N_SAMPLES,
                              .duration_ns = duration_ns,
                              .is_complete = 1,
                              .life = life};
    require(workload_from_events(planned, &info, workload) == 0, "the plan can be made");
}

static void prepare(struct workload *workload, struct outcome_with_samples *readings) {
    make_plan(events, 10000000, (struct trace_life){0}, workload);
    require(workload->plan->n_samples == N_SAMPLES, "a sample after each operation");
    *readings = (struct outcome_with_samples){
        .outcome = {.baseline_anonymous_bytes = 1000,
                    .baseline_rss_bytes = 5000,
                    .samples_offset = offsetof(struct outcome_with_samples, samples)},
        .samples = {{2200, 200, 0}, {3100, -1, 0}, {5000, 1000, 0}, {4000, 500, 0}}};
}

/* Lazily freed: 200, 600 (interpolated), 1000, 500; so the heap is 1000, 1500, 3000, 2500. */
static void check_mean(const struct run *run) {
    static const double EXPECTED[N_SAMPLES] = {1000, 1500, 3000, 2500};
    struct heap_figures figures;
    require(heap_figures(run, &figures), "memory");
    for (int i = 0; i < N_SAMPLES; i++)
        require(is_near(figures.curve[i], EXPECTED[i]), "a point of the curve");
    require(is_near(figures.mean_bytes, (1000 * 2 + 1500 * 2 + 3000 * 2 + 2500 * 4) / 10.0),
            "the mean is weighted by the time until the next reading");
    require(figures.lazy_bytes == 500, "lazily freed bytes at the end");
    require(figures.peak_bytes == 4000, "the peak has lazily freed pages in it");
    require(figures.live_at_peak_bytes == 600, "live bytes at the peak");
    free(figures.curve);
}

/* The largest of three meters counts; the tracer's also has the moment. */
static void check_peak(struct run *run) {
    struct heap_figures figures;
    run->traced.peak_anonymous_bytes = 7000;
    run->traced.peak_op = 1;
    require(heap_figures(run, &figures) && figures.peak_bytes == 6000, "peak of the tracer");
    require(figures.live_at_peak_bytes == 300, "live bytes at the tracer's peak");
    free(figures.curve);
    run->outcome->watermark_bytes = 12000;
    require(heap_figures(run, &figures) && figures.peak_bytes == 7000,
            "peak of the high-water mark");
    free(figures.curve);
}

/* The same operations of a process that lives from 0 to 20 ms: 3 ms before its first operation,
 * with what the allocator holds at its start, and 11 ms behind its last one. */
static void check_life(void) {
    struct life_outcome {
        struct outcome outcome;
        struct sample samples[N_SAMPLES + 2];
    };
    static struct life_outcome readings;
    struct trace_event later[N_SAMPLES];
    struct workload workload;
    struct heap_figures figures;
    for (int i = 0; i < N_SAMPLES; i++) {
        later[i] = events[i];
        later[i].time_ns += 3000000;
    }
    make_plan(later, 9000000, (struct trace_life){0, 20000000, 1, 1, {0}}, &workload);
    require(workload.plan->n_samples == N_SAMPLES + 2, "samples at both ends too");
    require(workload.plan->begin_ns == 0 && workload.plan->end_ns == 20000000, "the life");
    require(is_near(workload.mean_live_bytes, (100 * 2 + 300 * 2 + 600 * 2 + 500 * 11) / 20.0),
            "the mean of live bytes is over the life");
    readings = (struct life_outcome){
        .outcome = {.baseline_anonymous_bytes = 1000,
                    .samples_offset = offsetof(struct life_outcome, samples)},
        .samples = {
            {1500, 0, 0}, {2000, 0, 0}, {3000, 0, 0}, {4000, 0, 0}, {3500, 0, 0}, {3400, 0, 0}}};
    struct run run = {.workload = &workload, .outcome = &readings.outcome};
    require(heap_figures(&run, &figures), "memory");
    require(
        is_near(figures.mean_bytes, (500 * 3 + 1000 * 2 + 2000 * 2 + 3000 * 2 + 2500 * 11) / 20.0),
        "the mean of the heap is over the life");
    require(is_near(figures.final_bytes, 2400), "the heap at the end");
    free(figures.curve);
    workload_release(&workload);
}

/* A process that begins with a fork at 5 ms: its parent's history does not count. */
static void check_fork(void) {
    struct outcome_with_samples readings;
    struct workload workload;
    struct heap_figures figures = {.n_samples = 0};
    prepare(&workload, &readings);
    workload_release(&workload);
    make_plan(events, 6000000, (struct trace_life){.start_ns = 5000000, .has_start = 1}, &workload);
    require(is_near(workload.mean_live_bytes, 600), "live bytes from the fork on");
    struct run run = {.workload = &workload, .outcome = &readings.outcome};
    require(workload.plan->n_samples == N_SAMPLES && heap_figures(&run, &figures), "samples");
    require(is_near(figures.mean_bytes, 3000), "the heap from the fork on");
    free(figures.curve);
    workload_release(&workload);
}

/* What the harness maps for an empty table is its own too: no heap. */
static void check_empty_table(void) {
    struct replay replay = {.harness_bytes = 0};
    require(map_populated(&replay, 0, "nothing") != NULL, "a page is mapped");
    require(replay.harness_bytes == PAGE_BYTES, "the page of an empty table is counted");
}

int main(void) {
    static struct outcome_with_samples readings;
    struct workload workload;
    prepare(&workload, &readings);
    struct run run = {.workload = &workload, .outcome = &readings.outcome};
    check_mean(&run);
    check_peak(&run);
    workload_release(&workload);
    check_life();
    check_fork();
    check_empty_table();
    return verdict();
}
