/* instrument.c - chooses, runs and tries out the instruments; see instrument.h. */
#include "instrument.h"
#include "../message.h"
#include "json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the order of enum instrument_choice, best first; `auto` takes the first that works.
 * perf is last, however fast: it cannot separate the allocator's instructions from the
 * emulator's, and interrupts disturb it, so that no two counts are equal. */
static const struct instrument *const INSTRUMENTS[] = {&QEMU, &CACHEGRIND, &PERF};
#define N_INSTRUMENTS 3

/* One attempt to count, and why it failed. */
struct attempt {
    const struct options *options;
    const struct workload *workload;
    const struct instrument *instrument;
    struct counted *counted;
    bool is_unavailable; /* the instrument, not the replay, failed */
    char reason[600];
};

bool instrument_find_program(const char *name, char *path, unsigned path_bytes) {
    const char *directories = getenv("PATH");
    if (directories == NULL)
        directories = "/usr/local/bin:/usr/bin:/bin";
    while (*directories != '\0') {
        int length = (int)strcspn(directories, ":");
        snprintf(path, path_bytes, "%.*s/%s", length, directories, name);
        if (length > 0 && path[0] == '/' && access(path, X_OK) == 0)
            return true;
        directories += length + (directories[length] == ':');
    }
    return false;
}

/* Runs once under a given command; EXIT_OK with counts, or a code. */
static int count_once(struct attempt *attempt, enum run_kind kind, const struct command *prefix,
                      struct instructions *counted) {
    struct run run = {.options = attempt->options,
                      .workload = attempt->workload,
                      .kind = kind,
                      .use_perf = attempt->instrument->counts_in_replayer};
    int code = run_open(&run);
    if (code == EXIT_OK)
        code = run_execute(&run, prefix);
    if (code == EXIT_OK && !run_has_started(&run) && !run.timed_out) {
        attempt->is_unavailable = true;
        run_last_line(&run, attempt->reason, sizeof attempt->reason);
        code = EXIT_INSTRUMENT;
    }
    if (code == EXIT_OK)
        code = run_verdict(&run);
    if (code == EXIT_OK &&
        !attempt->instrument->read(&run, counted, attempt->reason, sizeof attempt->reason)) {
        attempt->is_unavailable = true;
        code = EXIT_INSTRUMENT;
    }
    if (kind == RUN_COUNT && run.outcome != NULL) {
        attempt->counted->checksum = run.outcome->checksum;
        attempt->counted->verified_blocks = run.outcome->verified_blocks;
        memcpy(attempt->counted->malloc_from, run.outcome->malloc_from,
               sizeof attempt->counted->malloc_from);
    }
    run_close(&run);
    return code;
}

static void subtract(uint64_t *count, uint64_t of_start_up) {
    if (*count >= of_start_up)
        *count -= of_start_up;
}

static int count_with(struct attempt *attempt, const struct command *prefix) {
    struct instructions empty = {.process = 0};
    struct instructions *full = &attempt->counted->instructions;
    int code = count_once(attempt, RUN_COUNT, prefix, full);
    if (code == EXIT_OK && attempt->instrument->needs_empty_run) {
        code = count_once(attempt, RUN_EMPTY, prefix, &empty);
        subtract(&full->process, empty.process);
        subtract(&full->allocator, empty.allocator);
    }
    return code;
}

/* Leaves in attempt->reason why nothing worked: what was missing, or the complaints of the
 * first and, if it is another, of the last variant. */
static void explain_attempt(struct attempt *attempt, const char *first, const char *missing) {
    char last[sizeof attempt->reason];
    snprintf(last, sizeof last, "%s", missing[0] != '\0' ? missing : attempt->reason);
    if (first[0] == '\0' || strcmp(first, last) == 0)
        snprintf(attempt->reason, sizeof attempt->reason, "%s", last);
    else
        snprintf(attempt->reason, sizeof attempt->reason, "%.290s; %.290s", first, last);
}

/* Tries the variants of one instrument.  EXIT_INSTRUMENT: it does not work here. */
static int try_instrument(struct attempt *attempt) {
    char reason[600], first[600] = "";
    for (int variant = 0;; variant++) {
        struct command prefix = {.n_words = 0};
        reason[0] = '\0';
        if (!attempt->instrument->wrap(attempt->options, variant, &prefix, reason, sizeof reason)) {
            explain_attempt(attempt, first, reason);
            command_release(&prefix);
            return EXIT_INSTRUMENT;
        }
        attempt->is_unavailable = false;
        int code = count_with(attempt, &prefix);
        command_release(&prefix);
        if (!attempt->is_unavailable)
            return code;
        if (variant == 0)
            snprintf(first, sizeof first, "%s", attempt->reason);
    }
}

int instrument_count(const struct options *options, const struct workload *workload,
                     struct counted *counted) {
    char reasons[2048] = "";
    for (int i = 0; i < N_INSTRUMENTS; i++) {
        struct attempt attempt = {.options = options,
                                  .workload = workload,
                                  .instrument = INSTRUMENTS[i],
                                  .counted = counted};
        if (options->instrument != INSTRUMENT_AUTO &&
            (int)options->instrument != i + INSTRUMENT_QEMU)
            continue;
        int code = try_instrument(&attempt);
        counted->instrument = INSTRUMENTS[i]->name;
        if (code != EXIT_INSTRUMENT)
            return code;
        size_t length = strlen(reasons);
        snprintf(reasons + length, sizeof reasons - length, "%s%s: %s", length > 0 ? "; " : "",
                 INSTRUMENTS[i]->name, attempt.reason);
    }
    if (options->instrument != INSTRUMENT_AUTO)
        return complain(EXIT_INSTRUMENT, "instrument not available", "%s", reasons);
    return complain(EXIT_INSTRUMENT, "no instrument works", "%s", reasons);
}

#define TRIAL_PAIRS 500u

/* 500 blocks allocated and freed again. */
static int load_trial(struct workload *workload) {
    static struct trace_event events[2 * TRIAL_PAIRS];
    struct trace_info info = {.version = TRACE_FORMAT_VERSION,
                              .n_threads = 1,
                              .n_slots = 1,
                              .page_bytes = PAGE_BYTES,
                              .n_events = UINT64_C(2) * TRIAL_PAIRS,
                              .duration_ns = UINT64_C(2) * TRIAL_PAIRS,
                              .is_complete = 1};
    for (uint32_t i = 0; i < 2 * TRIAL_PAIRS; i++)
        events[i] = (struct trace_event){.time_ns = i,
                                         .size = i % 2 == 0 ? 100 : 0,
                                         .op = i % 2 == 0 ? TRACE_MALLOC : TRACE_FREE,
                                         .api = i % 2 == 0 ? TRACE_API_MALLOC : TRACE_API_FREE};
    return workload_from_events(events, &info, workload);
}

int instrument_print_all(const struct options *options, bool wants_best) {
    struct workload workload;
    int code = load_trial(&workload);
    if (code != EXIT_OK)
        return code;
    struct json json = json_to(STDOUT_FILENO);
    json_open_list(&json, NULL);
    bool is_over = false;
    for (int i = 0; i < N_INSTRUMENTS && !is_over; i++) {
        struct counted counted = {.instrument = INSTRUMENTS[i]->name};
        struct attempt attempt = {.options = options,
                                  .workload = &workload,
                                  .instrument = INSTRUMENTS[i],
                                  .counted = &counted};
        bool works = try_instrument(&attempt) == EXIT_OK && counted.instructions.process > 0;
        json_open(&json, NULL);
        json_text(&json, "name", INSTRUMENTS[i]->name);
        json_bool(&json, "works", works);
        json_text(&json, "detail", works ? "tried out on 1000 calls" : attempt.reason);
        json_close(&json);
        is_over = works && wants_best;
    }
    json_close_list(&json);
    workload_release(&workload);
    return finish_output(&json);
}
