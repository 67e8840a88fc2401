/* The report: see report.h.  Fields are documented in docs/formats.md. */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>

static uint64_t to_ns(struct timeval time) {
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_usec * UINT64_C(1000);
}

static const char *as_bool(bool value) {
    return value ? "true" : "false";
}

static void write_ending(FILE *out, const struct outcome *outcome) {
    int status = outcome->wait_status;
    if (WIFSIGNALED(status))
        fprintf(out, "\"exit_status\":null,\"signal\":%d,", WTERMSIG(status));
    else
        fprintf(out, "\"exit_status\":%d,\"signal\":null,", WEXITSTATUS(status));
    fprintf(out, "\"timed_out\":%s,", as_bool(outcome->timed_out));
}

static void write_memory(FILE *out, const struct meter *meter) {
    fprintf(out, "\"peak_rss_bytes\":%" PRIu64 ",\"peak_from\":\"%s\",", meter->peak_rss,
            meter->is_final ? "exit" : "samples");
    fprintf(out, "\"peak_anon_bytes\":%" PRIu64 ",\"mean_anon_bytes\":%.1f,",
            meter_peak_anon(meter), meter_mean_anon(meter));
    fprintf(out, "\"mean_anon_cpu_bytes\":%.1f,", meter_mean_anon_cpu(meter));
    fprintf(out, "\"lazy_free_bytes\":%" PRIu64 ",\"n_samples\":%" PRIu64 ",", meter->peak_lazy,
            meter->n_samples);
}

static void write_effort(FILE *out, const struct meter *meter, const struct outcome *outcome) {
    fprintf(out, "\"faults\":%" PRIu64 ",\"major_faults\":%" PRIu64 ",",
            meter->end.minor_faults - meter->begin.minor_faults,
            meter->end.major_faults - meter->begin.major_faults);
    fprintf(out, "\"user_ns\":%" PRIu64 ",\"system_ns\":%" PRIu64 ",",
            to_ns(outcome->usage.ru_utime), to_ns(outcome->usage.ru_stime));
    fprintf(out, "\"children_cpu_ns\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",",
            meter->end.children_cpu_ns - meter->begin.children_cpu_ns, outcome->wall_ns);
    if (outcome->is_counted)
        fprintf(out, "\"instructions\":%" PRIu64 ",", outcome->instructions);
    else
        fputs("\"instructions\":null,", out);
}

static void write_preload(FILE *out, const struct plan *plan, const struct meter *meter) {
    bool known = plan->preload != NULL && meter->preload_known;
    fprintf(out, "\"preload_mapped\":%s,", known ? as_bool(meter->preload_mapped) : "null");
}

/* Paths may hold anything but a zero byte. */
static void write_text(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\' || *c < ' ')
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

static void write_libraries(FILE *out, const struct proc_libraries *libraries) {
    fputs("\"malloc_libraries\":[", out);
    for (size_t i = 0; i < libraries->n; i++) {
        if (i > 0)
            fputc(',', out);
        write_text(out, libraries->paths[i]);
    }
    fputs("],", out);
}

static void write_curve(FILE *out, const struct curve *curve) {
    fputs("\"curve\":{\"time_ns\":[", out);
    for (size_t i = 0; i < curve->n_points; i++)
        fprintf(out, "%s%" PRIu64, i == 0 ? "" : ",", curve->points[i].time_ns);
    fputs("],\"anon_bytes\":[", out);
    for (size_t i = 0; i < curve->n_points; i++)
        fprintf(out, "%s%" PRIu64, i == 0 ? "" : ",", curve->points[i].bytes);
    fputs("]}", out);
}

bool write_report(const struct plan *plan, const struct meter *meter,
                  const struct outcome *outcome) {
    FILE *out = fdopen(plan->report_fd, "w");
    if (out == NULL)
        return false;
    fputs("{\"schema\":\"supervise.result\",\"version\":1,", out);
    write_ending(out, outcome);
    write_memory(out, meter);
    write_effort(out, meter, outcome);
    write_preload(out, plan, meter);
    write_libraries(out, &meter->libraries);
    write_curve(out, &meter->curve);
    fputs("}\n", out);
    bool is_good = ferror(out) == 0;
    return fclose(out) == 0 && is_good;
}
