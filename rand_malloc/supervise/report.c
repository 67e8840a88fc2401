/* The report: see report.h.  Fields are documented in tuner/measure/program.py. */
#include "report.h"

#include "json.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_ending(struct json *json, const struct outcome *outcome) {
    int status = outcome->wait_status;
    if (WIFSIGNALED(status)) {
        json_null(json, "exit_status");
        json_signed(json, "signal", WTERMSIG(status));
    } else {
        json_signed(json, "exit_status", WEXITSTATUS(status));
        json_null(json, "signal");
    }
    json_bool(json, "timed_out", outcome->timed_out);
}

static void write_memory(struct json *json, const struct meter *meter) {
    json_integer(json, "peak_rss_bytes", meter->peak_rss);
    json_text(json, "peak_from", meter->is_final ? "exit" : "samples");
    json_integer(json, "peak_anon_bytes", meter_peak_anon(meter));
    json_number(json, "mean_anon_bytes", meter_mean_anon(meter));
    json_number(json, "mean_anon_cpu_bytes", meter_mean_anon_cpu(meter));
    json_integer(json, "lazy_free_bytes", meter->peak_lazy);
    json_integer(json, "n_samples", meter->n_samples);
    json_integer(json, "n_threads", meter->n_threads);
}

static uint64_t children_ns(const struct proc_counts *counts) {
    return counts->children_user_ns + counts->children_system_ns;
}

/* What the program used, and those before it that ended in an exec did not. */
static uint64_t since_exec(uint64_t whole_ns, uint64_t before_ns) {
    return whole_ns > before_ns ? whole_ns - before_ns : 0;
}

static void write_effort(struct json *json, const struct meter *meter,
                         const struct outcome *outcome, bool is_counting) {
    const struct proc_counts *begin = &meter->begin;
    const struct proc_counts *end = &meter->end;
    json_integer(json, "faults", end->minor_faults - begin->minor_faults);
    json_integer(json, "major_faults", end->major_faults - begin->major_faults);
    json_integer(json, "user_ns",
                 since_exec(outcome->used.user_ns, begin->user_ns + begin->children_user_ns));
    json_integer(json, "system_ns",
                 since_exec(outcome->used.system_ns, begin->system_ns + begin->children_system_ns));
    json_integer(json, "children_cpu_ns",
                 since_exec(children_ns(end), children_ns(begin)) + outcome->orphans_ns);
    json_integer(json, "wall_ns", outcome->wall_ns);
    if (outcome->is_counted)
        json_integer(json, "instructions", outcome->instructions);
    else
        json_null(json, "instructions");
    if (is_counting)
        json_integer(json, "syscalls", outcome->n_syscalls);
    else
        json_null(json, "syscalls");
}

static void write_preload(struct json *json, const struct plan *plan, const struct meter *meter) {
    if (plan->preload != NULL && meter->preload_known)
        json_bool(json, "preload_mapped", meter->preload_mapped);
    else
        json_null(json, "preload_mapped");
}

static bool was_given(char *const *given, const char *entry) {
    while (*given != NULL && strcmp(*given, entry) != 0)
        given++;
    return *given != NULL;
}

static bool has(const struct proc_environment *environment, const char *entry) {
    const char *end = environment->text + environment->n_bytes;
    for (const char *at = environment->text; at < end; at += strlen(at) + 1) {
        if (strcmp(at, entry) == 0)
            return true;
    }
    return false;
}

static bool is_ascii(const char *text, size_t n_bytes) {
    size_t n = 0;
    while (n < n_bytes && (unsigned char)text[n] < 0x80)
        n++;
    return n == n_bytes;
}

/* GLIBC_TUNABLES with its value, of which a part is malloc's; names of allocators are ASCII. */
static void write_name(struct json *json, const char *entry) {
    bool is_tunables = strncmp(entry, "GLIBC_TUNABLES=", 15) == 0;
    size_t n_bytes = is_tunables ? strlen(entry) : strcspn(entry, "=");
    if (is_ascii(entry, n_bytes))
        json_bytes(json, NULL, entry, n_bytes);
}

/* Names of variables that came up, were lost, or have another value (these twice) since `given`:
 * a wrapper such as `env -i`, or a script, has executed the program. */
static void write_changed(struct json *json, char *const *given,
                          const struct proc_environment *environment) {
    if (environment->text == NULL) {
        json_null(json, "changed_variables");
        return;
    }
    const char *end = environment->text + environment->n_bytes;
    json_open_list(json, "changed_variables");
    for (const char *at = environment->text; at < end; at += strlen(at) + 1) {
        if (!was_given(given, at))
            write_name(json, at);
    }
    for (char *const *entry = given; *entry != NULL; entry++) {
        if (!has(environment, *entry))
            write_name(json, *entry);
    }
    json_close_list(json);
}

static void write_libraries(struct json *json, const struct proc_libraries *libraries) {
    json_open_list(json, "malloc_libraries");
    for (size_t i = 0; i < libraries->n; i++)
        json_text(json, NULL, libraries->paths[i]);
    json_close_list(json);
}

static void write_curve(struct json *json, const struct curve *curve) {
    json_open(json, "curve");
    json_open_list(json, "time_ns");
    for (size_t i = 0; i < curve->n_points; i++)
        json_integer(json, NULL, curve->points[i].time_ns);
    json_close_list(json);
    json_open_list(json, "anon_bytes");
    for (size_t i = 0; i < curve->n_points; i++)
        json_integer(json, NULL, curve->points[i].bytes);
    json_close_list(json);
    json_close(json);
}

bool write_report(const struct plan *plan, const struct meter *meter,
                  const struct outcome *outcome) {
    struct json json = json_to(plan->report_fd);
    json_open(&json, NULL);
    json_text(&json, "schema", "supervise.result");
    json_integer(&json, "version", 1);
    json_bool(&json, "fixed_addresses", outcome->has_fixed_addresses);
    json_bool(&json, "leaves_others", outcome->leaves_others);
    write_ending(&json, outcome);
    write_memory(&json, meter);
    write_effort(&json, meter, outcome, plan->counts_syscalls && meter->is_final);
    write_preload(&json, plan, meter);
    json_text(&json, "program", outcome->program[0] != '\0' ? outcome->program : NULL);
    write_changed(&json, plan->environment, &outcome->environment);
    write_libraries(&json, &meter->libraries);
    write_curve(&json, &meter->curve);
    json_close(&json);
    return json_finish(&json) && close(plan->report_fd) == 0;
}
