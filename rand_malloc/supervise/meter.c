/* The account of one program: see meter.h. */
#include "meter.h"

#include <stddef.h>
#include <time.h>

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t monotonic_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

/* What this process has taken of a core. */
static uint64_t own_cpu_ns(void) {
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void meter_start(struct meter *meter, pid_t pid) {
    *meter = (struct meter){.pid = pid, .start_ns = monotonic_ns()};
    curve_init(&meter->curve);
    (void)proc_counts(pid, &meter->begin);
    meter->end = meter->begin;
}

static void walk_lazy_free(struct meter *meter) {
    uint64_t before = own_cpu_ns(); /* waiting for a core is no work, and would put off the next */
    if (!proc_lazy_free(meter->pid, &meter->lazy))
        return;
    meter->peak_lazy = max_u64(meter->peak_lazy, meter->lazy);
    meter->next_walk_ns = monotonic_ns() + (own_cpu_ns() - before) * WALK_SHARE;
}

/* Where the peak grew since the last sample and is above it and this one, memory went up to it and
 * came down again in between, which nobody saw. */
static double mean_on_the_way(const struct meter *meter, const struct proc_memory *memory,
                              uint64_t kept) {
    double straight = 0.5 * ((double)meter->last_kept + (double)kept);
    uint64_t others = max_u64(meter->peak_file, memory->file) + meter->lazy;
    uint64_t top = memory->high_water > others ? memory->high_water - others : 0;
    bool is_between = memory->high_water > meter->peak_rss && top > max_u64(meter->last_kept, kept);
    return is_between ? 0.5 * (straight + (double)top) : straight;
}

static void add_cpu(struct meter *meter, uint64_t cpu_ns) {
    if (cpu_ns == 0)
        return;
    meter->cpu_area += recent_mean(&meter->recent, cpu_ns) * (double)cpu_ns;
    recent_start(&meter->recent);
}

static void add(struct meter *meter, uint64_t now, const struct proc_memory *memory) {
    uint64_t kept = memory->anon > meter->lazy ? memory->anon - meter->lazy : 0;
    uint64_t cpu_ns = max_u64(proc_cpu_ns(meter->pid), meter->last_cpu_ns);
    if (meter->n_samples == 0) {
        meter->first_ns = now;
        meter->first_cpu_ns = cpu_ns;
    } else {
        double straight = 0.5 * ((double)meter->last_kept + (double)kept);
        meter->area += straight * (double)(now - meter->last_ns);
        recent_add(&meter->recent, now - meter->last_ns, mean_on_the_way(meter, memory, kept));
        add_cpu(meter, cpu_ns - meter->last_cpu_ns);
    }
    meter->last_ns = now;
    meter->last_cpu_ns = cpu_ns;
    meter->last_kept = kept;
    meter->n_samples++;
    meter->peak_rss = max_u64(meter->peak_rss, memory->high_water);
    meter->peak_anon = max_u64(meter->peak_anon, memory->anon);
    meter->peak_file = max_u64(meter->peak_file, memory->file);
    meter->n_threads = max_u64(meter->n_threads, memory->n_threads);
    curve_append(&meter->curve, now - meter->start_ns, kept);
}

void meter_sample(struct meter *meter) {
    struct proc_memory memory;
    uint64_t now = monotonic_ns();
    if (!proc_memory(meter->pid, &memory))
        return;
    if (now >= meter->next_walk_ns)
        walk_lazy_free(meter);
    add(meter, now, &memory);
    if (memory.n_threads > 1) /* the exit that was seen was only that of the first thread */
        meter->is_final = false;
    (void)proc_counts(meter->pid, &meter->end);
}

void meter_exit(struct meter *meter, const struct proc_file *preload) {
    uint64_t before = meter->n_samples;
    meter->next_walk_ns = 0;
    meter_sample(meter);
    meter->is_final = meter->n_samples > before;
    (void)proc_malloc_libraries(meter->pid, &meter->libraries);
    if (preload != NULL && proc_maps_file(meter->pid, preload, &meter->preload_mapped))
        meter->preload_known = true;
}

uint64_t meter_peak_anon(const struct meter *meter) {
    uint64_t rest = meter->peak_rss > meter->peak_file ? meter->peak_rss - meter->peak_file : 0;
    return max_u64(meter->peak_anon, rest);
}

double meter_mean_anon(const struct meter *meter) {
    uint64_t span = meter->last_ns - meter->first_ns;
    return span == 0 ? (double)meter->last_kept : meter->area / (double)span;
}

double meter_mean_anon_cpu(const struct meter *meter) {
    uint64_t span = meter->last_cpu_ns - meter->first_cpu_ns;
    return span == 0 ? (double)meter->last_kept : meter->cpu_area / (double)span;
}
