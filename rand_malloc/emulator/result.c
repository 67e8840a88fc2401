/* result.c - prints the result; absent measurements are null, see result.h. */
#include "result.h"
#include "json.h"
#include "latency.h"
#include "message.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RESULT_VERSION 1

static void print_head(struct json *json, const struct result *result) {
    const struct options *options = result->options;
    const struct plan *plan = result->workload->plan;
    json_text(json, "schema", "rand_malloc.result");
    json_integer(json, "version", RESULT_VERSION);
    json_text(json, "rand_malloc", RAND_MALLOC_VERSION);
    json_open(json, "trace");
    json_integer(json, "events", plan->n_events);
    json_integer(json, "threads", result->workload->info.n_threads);
    json_integer(json, "slots", plan->n_slots);
    json_integer(json, "duration_ns", plan->end_ns - plan->begin_ns);
    json_bool(json, "start_known", result->workload->info.life.has_start != 0);
    json_bool(json, "end_known", result->workload->info.life.has_end != 0);
    json_bool(json, "complete", result->workload->info.is_complete != 0);
    json_text(json, "level", result->workload->model.level);
    json_bool(json, "low_fidelity", result->workload->model.is_low_fidelity);
    json_close(json);
    json_open(json, "allocator");
    json_text(json, "preload", options->preload);
    json_text(json, "malloc_from",
              result->memory != NULL    ? result->memory->outcome->malloc_from
              : result->counted != NULL ? result->counted->malloc_from
                                        : NULL);
    json_close(json);
    json_open(json, "settings");
    json_text(json, "threads", options->is_free_running ? "free" : "baton");
    json_text(json, "touch", options_touch_name(options->touch));
    json_text(json, "thp", options->keeps_thp ? "keep" : "never");
    json_integer(json, "seed", options->seed);
    if (options->is_free_running)
        json_null(json, "cpu");
    else
        json_integer(json, "cpu", (uint64_t)run_cpu(options));
    json_text(json, "instrument", result->counted != NULL ? result->counted->instrument : "none");
    json_close(json);
}

static void print_absent_heap(struct json *json) {
    static const char *const NAMES[] = {
        "peak_heap_bytes",       "mean_heap_bytes", "final_heap_bytes", "baseline_bytes",
        "fragmentation_at_peak", "lazy_free_bytes", "faults",           "huge_pages"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        json_null(json, NAMES[i]);
}

static void print_huge_pages(struct json *json, const struct result *result) {
    if (!result->options->keeps_thp) {
        json_null(json, "huge_pages");
        return;
    }
    json_open(json, "huge_pages");
    json_integer(json, "pages", huge_pages_of_region(result->memory));
    json_integer(json, "fallbacks", result->memory->huge_pages.fallbacks);
    json_integer(json, "collapses", result->memory->huge_pages.collapses);
    json_close(json);
}

static void print_heap(struct json *json, const struct result *result) {
    const struct heap_figures *heap = result->heap;
    if (result->memory == NULL) {
        print_absent_heap(json);
    } else {
        json_integer(json, "peak_heap_bytes", heap->peak_bytes);
        json_number(json, "mean_heap_bytes", heap->mean_bytes);
        json_number(json, "final_heap_bytes", heap->final_bytes);
        json_integer(json, "baseline_bytes", result->memory->outcome->baseline_anonymous_bytes);
        json_number(json, "fragmentation_at_peak",
                    heap->live_at_peak_bytes > 0
                        ? (double)heap->peak_bytes / (double)heap->live_at_peak_bytes
                        : NAN);
        json_integer(json, "lazy_free_bytes", heap->lazy_bytes);
        json_integer(json, "faults", result->memory->outcome->faults);
        print_huge_pages(json, result);
    }
    json_integer(json, "peak_live_bytes", result->workload->peak_live_bytes);
    json_number(json, "mean_live_bytes", result->workload->mean_live_bytes);
}

static void print_syscalls(struct json *json, const struct result *result) {
    static const char *const NAMES[SYSCALL_CLASSES] = {"brk",     "mmap",   "munmap",
                                                       "madvise", "mremap", "mprotect"};
    if (result->memory == NULL || !result->memory->traced.is_traced) {
        json_null(json, "syscalls");
        return;
    }
    const struct traced *traced = &result->memory->traced;
    uint64_t total = 0;
    for (int call = 0; call < SYSCALL_CLASSES; call++)
        total += traced->calls[call];
    json_open(json, "syscalls");
    json_integer(json, "total", total);
    for (int call = 0; call < SYSCALL_CLASSES; call++)
        json_integer(json, NAMES[call], traced->calls[call]);
    json_close(json);
}

static void print_instructions(struct json *json, const struct result *result) {
    if (result->counted == NULL) {
        json_null(json, "instructions");
        return;
    }
    const struct instructions *instructions = &result->counted->instructions;
    json_open(json, "instructions");
    json_text(json, "instrument", result->counted->instrument);
    if (instructions->has_allocator)
        json_integer(json, "allocator", instructions->allocator);
    else
        json_null(json, "allocator");
    if (instructions->has_process)
        json_integer(json, "process", instructions->process);
    else
        json_null(json, "process");
    json_close(json);
}

static void print_times(struct json *json, const struct result *result) {
    if (result->memory == NULL) {
        json_null(json, "wall_ns");
        json_null(json, "cpu_ns");
        return;
    }
    json_integer(json, "wall_ns", result->memory->outcome->wall_ns);
    json_integer(json, "cpu_ns", result->memory->outcome->cpu_ns);
}

static void print_percentiles(struct json *json, const char *name,
                              const struct histogram *histogram, double ns_per_tick) {
    static const struct {
        const char *name;
        double share;
    } ROWS[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
    if (histogram->max == 0) { /* no such call */
        json_null(json, name);
        return;
    }
    json_open(json, name);
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        json_number(json, ROWS[i].name,
                    (double)histogram_percentile(histogram, ROWS[i].share) * ns_per_tick);
    json_number(json, "max", (double)histogram->max * ns_per_tick);
    json_close(json);
}

static double tick_ns(const struct outcome *outcome) {
    return outcome->ticks > 0 ? (double)outcome->wall_ns / (double)outcome->ticks : NAN;
}

/* What threads wait for: each other's blocks, which is the trace's doing, and the
 * allocator's locks, in which they sleep. */
static void print_contention(struct json *json, const struct outcome *outcome,
                             const struct histogram *all) {
    double ns_per_tick = tick_ns(outcome);
    json_open(json, "contention");
    json_number(json, "allocator_ns", (double)all->sum * ns_per_tick);
    json_integer(json, "sleeps", outcome->sleeps);
    json_integer(json, "preemptions", outcome->preemptions);
    json_integer(json, "edge_waits", outcome->edge_waits);
    json_number(json, "edge_wait_ns", (double)outcome->edge_wait_ticks * ns_per_tick);
    json_close(json);
}

static void print_latency(struct json *json, const struct result *result) {
    static const char *const NAMES[LATENCY_KINDS] = {"malloc", "realloc", "free"};
    static struct histogram merged[LATENCY_KINDS], all;
    if (result->memory == NULL || result->memory->outcome->histograms_offset == 0) {
        json_null(json, "latency_ns");
        json_null(json, "contention");
        return;
    }
    const struct outcome *outcome = result->memory->outcome;
    const struct histogram *each =
        (const struct histogram *)(const void *)((const char *)outcome +
                                                 outcome->histograms_offset);
    double ns_per_tick = tick_ns(outcome);
    uint64_t n_rows = (uint64_t)result->workload->plan->n_stacks + 1;
    for (uint64_t i = 0; i < n_rows * LATENCY_KINDS; i++)
        histogram_merge(&merged[i % LATENCY_KINDS], &each[i]);
    json_open(json, "latency_ns");
    for (int kind = 0; kind < LATENCY_KINDS; kind++) {
        histogram_merge(&all, &merged[kind]);
        print_percentiles(json, NAMES[kind], &merged[kind], ns_per_tick);
    }
    print_percentiles(json, "all", &all, ns_per_tick);
    json_close(json);
    print_contention(json, outcome, &all);
}

/* The sample with the largest heap of each of `points` equal parts, so that no peak of
 * the samples is lost.  Returns how many there are. */
static uint64_t choose_points(const struct result *result, uint64_t *chosen) {
    uint64_t n_samples = result->workload->plan->n_samples;
    uint64_t points = result->options->curve_points;
    if (points > n_samples)
        points = n_samples;
    for (uint64_t i = 0; i < points; i++) {
        uint64_t end = n_samples * (i + 1) / points;
        chosen[i] = n_samples * i / points;
        for (uint64_t j = chosen[i] + 1; j < end; j++)
            if (result->heap->curve[j] > result->heap->curve[chosen[i]])
                chosen[i] = j;
    }
    return points;
}

/* The event of the last of n_ops operations; before all of them the first. */
static uint64_t event_before(const struct workload *workload, uint64_t n_ops) {
    return n_ops > 0 ? workload_event_of(workload, n_ops - 1) : 0;
}

static void print_curve(struct json *json, const struct result *result) {
    const struct workload *workload = result->workload;
    uint64_t *chosen = calloc((size_t)result->options->curve_points + 1, sizeof *chosen);
    if (result->memory == NULL || chosen == NULL) {
        json_null(json, "curve");
        free(chosen);
        return;
    }
    const struct sample_point *points = plan_at(workload->plan, workload->plan->samples_offset);
    uint64_t n_points = choose_points(result, chosen);
    json_open(json, "curve");
    json_open_list(json, "event");
    for (uint64_t i = 0; i < n_points; i++)
        json_integer(json, NULL, event_before(workload, points[chosen[i]].n_ops));
    json_close_list(json);
    json_open_list(json, "time_ns");
    for (uint64_t i = 0; i < n_points; i++)
        json_integer(json, NULL, points[chosen[i]].time_ns - points[0].time_ns);
    json_close_list(json);
    json_open_list(json, "heap_bytes");
    for (uint64_t i = 0; i < n_points; i++) {
        double bytes = result->heap->curve[chosen[i]];
        json_integer(json, NULL, bytes > 0 ? (uint64_t)bytes : 0);
    }
    json_close_list(json);
    json_open_list(json, "live_bytes");
    for (uint64_t i = 0; i < n_points; i++)
        json_integer(json, NULL, workload->sample_live[chosen[i]]);
    json_close_list(json);
    json_close(json);
    free(chosen);
}

/* What was verified, from whichever run there is; null without any. */
static void print_proof(struct json *json, const struct result *result) {
    char checksum[20];
    if (result->memory == NULL && result->counted == NULL) {
        json_null(json, "checksum");
        json_null(json, "verified_blocks");
        return;
    }
    bool has_memory = result->memory != NULL;
    snprintf(checksum, sizeof checksum, "%016" PRIx64,
             has_memory ? result->memory->outcome->checksum : result->counted->checksum);
    json_text(json, "checksum", checksum);
    json_integer(json, "verified_blocks",
                 has_memory ? result->memory->outcome->verified_blocks
                            : result->counted->verified_blocks);
}

int result_print(const struct result *result) {
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    print_head(&json, result);
    print_heap(&json, result);
    print_syscalls(&json, result);
    print_instructions(&json, result);
    print_times(&json, result);
    print_latency(&json, result);
    print_curve(&json, result);
    print_proof(&json, result);
    json_close(&json);
    return finish_output(&json);
}
