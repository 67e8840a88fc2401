/* main.c - malloc_bench: one workload on whatever malloc the process has, as one JSON object.
 *
 * The allocator is chosen from outside, by LD_PRELOAD; malloc_from is the library whose malloc it
 * was. Each run is a process of its own, so that no allocator inherits another's pages.
 */
#include "crew.h"
#include "json.h"
#include "meter.h"
#include "options.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/personality.h>
#include <unistd.h>

/* Start anew without address randomisation, where that is permitted and not so already. */
static void fix_addresses(char **argv) {
    int now = personality(0xffffffff);
    if (now == -1 || (now & ADDR_NO_RANDOMIZE) != 0)
        return;
    if (personality((unsigned long)now | ADDR_NO_RANDOMIZE) != -1)
        (void)execv("/proc/self/exe", argv); /* or go on with what there is */
}

static const char *malloc_from(void) {
    static Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    return symbol != NULL && dladdr(symbol, &info) != 0 ? info.dli_fname : NULL;
}

/* What the clock itself takes, in ticks: the median of the empty sections. */
static uint64_t clock_ticks(const struct bench *bench) {
    return histogram_percentile(&bench->timing.empty, 0.5);
}

/* ns of ticks less the clock's own; no call takes less than nothing. */
static double call_ns(const struct bench *bench, uint64_t ticks) {
    uint64_t clock = clock_ticks(bench);
    return ticks > clock ? (double)(ticks - clock) / bench->ticks_per_ns : 0;
}

static void print_histogram(struct json *json, const char *name, const struct bench *bench,
                            const struct histogram *histogram) {
    static const struct {
        const char *name;
        double share;
    } SHARES[] = {{"p50_ns", 0.5}, {"p90_ns", 0.9}, {"p99_ns", 0.99}, {"p999_ns", 0.999}};
    uint64_t n = 0;
    for (uint32_t bucket = 0; bucket < LATENCY_BUCKETS; bucket++)
        n += histogram->counts[bucket];
    if (n == 0) {
        json_null(json, name);
        return;
    }
    json_open(json, name);
    json_integer(json, "n", n);
    for (size_t i = 0; i < sizeof SHARES / sizeof SHARES[0]; i++) {
        uint64_t ticks = histogram_percentile(histogram, SHARES[i].share);
        json_number(json, SHARES[i].name, call_ns(bench, ticks));
    }
    json_number(json, "max_ns", call_ns(bench, histogram->max));
    json_close(json);
}

static void print_latency(struct json *json, const struct bench *bench) {
    if (bench->timing.empty.max == 0) { /* no call was timed */
        json_null(json, "latency");
        return;
    }
    json_open(json, "latency");
    json_number(json, "clock_overhead_ns", (double)clock_ticks(bench) / bench->ticks_per_ns);
    print_histogram(json, "malloc", bench, &bench->timing.malloc);
    print_histogram(json, "free", bench, &bench->timing.free);
    print_histogram(json, "empty", bench, &bench->timing.empty);
    json_close(json);
}

static void print_list(struct json *json, const char *name, const uint64_t *values, uint32_t n) {
    json_open_list(json, name);
    for (uint32_t i = 0; i < n; i++)
        json_integer(json, NULL, values[i]);
    json_close_list(json);
}

static void print_curve(struct json *json, const struct curve *curve) {
    if (curve->n == 0) {
        json_null(json, "curve");
        return;
    }
    json_open(json, "curve");
    print_list(json, "time_ns", curve->time_ns, curve->n);
    print_list(json, "live_bytes", curve->live_bytes, curve->n);
    print_list(json, "rss_bytes", curve->rss_bytes, curve->n);
    json_close(json);
}

static void print_request(struct json *json, const struct settings *settings) {
    json_text(json, "schema", "malloc-tuner.malloc_bench");
    json_integer(json, "version", 1);
    json_text(json, "workload", settings->workload->name);
    json_integer(json, "threads", settings->threads);
    if (settings->size != 0)
        json_integer(json, "size", settings->size);
    else
        json_null(json, "size");
    json_integer(json, "seed", settings->seed);
    json_text(json, "malloc_from", malloc_from());
}

static void print_result(const struct bench *bench, uint64_t faults) {
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    print_request(&json, bench->settings);
    json_integer(&json, "operations", bench->counted.operations);
    json_integer(&json, "wall_ns", bench->counted.wall_ns);
    json_integer(&json, "cpu_ns", bench->counted.cpu_ns);
    json_integer(&json, "faults", faults);
    json_integer(&json, "peak_rss_bytes", meter_peak_rss_bytes());
    json_integer(&json, "end_rss_bytes", meter_rss_bytes());
    if (bench->usable_bytes != 0) {
        json_integer(&json, "usable_bytes", bench->usable_bytes);
        json_integer(&json, "resident_bytes", bench->resident_bytes);
    } else {
        json_null(&json, "usable_bytes");
        json_null(&json, "resident_bytes");
    }
    print_latency(&json, bench);
    print_curve(&json, &bench->curve);
    json_close(&json);
    if (!json_finish(&json))
        fail("standard output", "cannot be written");
}

static void run_alone(struct bench *bench) {
    uint64_t wall_ns = meter_clock_ns(), cpu_ns = meter_cpu_ns();
    bench->settings->workload->whole(bench);
    bench->counted = (struct counted){atomic_load(&bench->workers[0].operations),
                                      meter_clock_ns() - wall_ns, meter_cpu_ns() - cpu_ns};
}

static struct worker *hire(struct bench *bench) {
    uint32_t n = bench->settings->threads;
    struct worker *workers = own_memory(n * sizeof *workers);
    struct timing *timings = own_memory(n * sizeof *timings);
    for (uint32_t i = 0; i < n; i++) {
        workers[i].bench = bench;
        workers[i].timing = &timings[i];
        workers[i].index = i;
        /* An odd factor keeps the states apart, and no state is 0. */
        workers[i].random =
            (bench->settings->seed * UINT64_C(1099511627791) + i + 1) * UINT64_C(2654435769) | 1;
    }
    return workers;
}

int main(int argc, char **argv) {
    static struct settings settings;
    static struct bench bench;
    enum action action;
    int code = options_parse(argc, argv, &settings, &action);
    if (code != EXIT_OK)
        return code;
    if (action == ACTION_HELP)
        options_print_help();
    if (action == ACTION_VERSION)
        printf("malloc_bench %s\n", MALLOC_TUNER_VERSION);
    if (action == ACTION_RUN) {
        if (!settings.keeps_aslr)
            fix_addresses(argv);
        uint64_t faults = meter_faults();
        bench.settings = &settings;
        bench.workers = hire(&bench);
        if (settings.workload->run != NULL)
            crew_run(&bench);
        else
            run_alone(&bench);
        print_result(&bench, meter_faults() - faults);
    }
    if (fflush(stdout) != 0)
        fail("standard output", "cannot be written");
    return EXIT_OK;
}
