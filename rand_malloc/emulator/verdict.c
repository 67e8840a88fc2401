/* verdict.c - turns the way a replayer ended into one message and an exit code. */
#include "message.h"
#include "run.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool run_has_started(const struct run *run) {
    return run->outcome->stage != STAGE_NONE;
}

void run_last_line(const struct run *run, char *line, unsigned line_bytes) {
    char text[2048];
    off_t size = lseek(run->log_fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text - 1 ? size - (off_t)sizeof text + 1 : 0;
    ssize_t length = pread(run->log_fd, text, sizeof text - 1, from);
    text[length > 0 ? length : 0] = '\0';
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    const char *last = strrchr(text, '\n');
    snprintf(line, line_bytes, "%s", last != NULL ? last + 1 : text);
}

void run_print_log(const struct run *run) {
    char text[2048];
    ssize_t length = pread(run->log_fd, text, sizeof text, 0);
    if (length > 0)
        fprintf(stderr, "%.*s", (int)length, text);
}

/* "event 17 (malloc of 88 bytes in slot 3)" for an operation of the plan. */
static void describe_op(const struct run *run, uint64_t index, char *text, size_t text_bytes) {
    static const char *const NAMES[] = {"malloc", "calloc", "aligned allocation", "realloc",
                                        "free"};
    const struct plan *plan = run->workload->plan;
    if (run->outcome->stage < STAGE_RUNNING || plan->n_ops == 0) {
        snprintf(text, text_bytes, "start-up");
        return;
    }
    if (index >= plan->n_ops) {
        snprintf(text, text_bytes, "the end of the trace");
        return;
    }
    const struct op *op = (const struct op *)plan_at(plan, plan->ops_offset) + index;
    uint64_t event = workload_event_of(run->workload, index);
    if (op->kind == TRACE_FREE)
        snprintf(text, text_bytes, "event %" PRIu64 " (free of slot %" PRIu32 ")", event, op->slot);
    else
        snprintf(text, text_bytes, "event %" PRIu64 " (%s of %" PRIu64 " bytes, slot %" PRIu32 ")",
                 event, NAMES[op->kind], op_size(op), op->slot);
}

static int explain_failure(const struct run *run) {
    const struct failure *failure = &run->outcome->failure;
    char where[160];
    describe_op(run, failure->op, where, sizeof where);
    switch ((enum failure_kind)failure->kind) {
    case FAILURE_NULL:
        return complain(EXIT_REPLAY, "replay", "the allocator returned NULL at %s", where);
    case FAILURE_ALIGNMENT:
        return complain(EXIT_REPLAY, "replay", "misaligned block %#" PRIx64 " at %s",
                        failure->detail, where);
    case FAILURE_CONTENT:
        return complain(EXIT_REPLAY, "replay",
                        "contents damaged at offset %" PRIu64 " of the block at %s",
                        failure->detail, where);
    case FAILURE_NOT_ZERO:
        return complain(EXIT_REPLAY, "replay", "calloc memory not zero at offset %" PRIu64 " at %s",
                        failure->detail, where);
    default:
        return complain(EXIT_REPLAY, "replay", "cannot %s: %s", failure->what,
                        strerror((int)failure->detail));
    }
}

static int explain_death(const struct run *run) {
    char where[160], line[512];
    describe_op(run, run->outcome->progress, where, sizeof where);
    run_last_line(run, line, sizeof line);
    const char *before = line[0] != '\0' ? "; it said: " : "";
    if (WIFSIGNALED(run->status)) {
        int number = WTERMSIG(run->status);
        const char *name = sigabbrev_np(number);
        return complain(EXIT_REPLAY, "replay", "killed by SIG%s at %s%s%s",
                        name != NULL ? name : "?", where, before, line);
    }
    return complain(EXIT_REPLAY, "replay", "ended with status %d at %s%s%s",
                    WEXITSTATUS(run->status), where, before, line);
}

/* Did LD_PRELOAD take effect?  ld.so only warns when it did not. */
static int check_preload(const struct run *run) {
    char wanted[PATH_MAX], found[PATH_MAX];
    if (run->options->preload == NULL || run->outcome->stage < STAGE_READY)
        return EXIT_OK;
    const char *from = run->outcome->malloc_from;
    if (realpath(run->options->preload, wanted) != NULL && realpath(from, found) != NULL &&
        strcmp(wanted, found) == 0)
        return EXIT_OK;
    char line[512];
    run_last_line(run, line, sizeof line);
    return complain(EXIT_PRELOAD, run->options->preload,
                    "is not the allocator of the replayer: malloc comes from %s%s%s", from,
                    line[0] != '\0' ? "; the loader said: " : "", line);
}

int run_verdict(const struct run *run) {
    int code = check_preload(run);
    if (code != EXIT_OK)
        return code;
    if (run->timed_out) {
        char where[160];
        describe_op(run, run->outcome->progress, where, sizeof where);
        double limit_s = run->options->timeout_s;
        if (run->is_hung)
            return complain(EXIT_TIMEOUT, "replay", "no end after %g s, stopped at %s",
                            HANG_FACTOR * limit_s, where);
        return complain(EXIT_TIMEOUT, "replay", "no end after %g s of CPU time, stopped at %s",
                        limit_s, where);
    }
    if (run->outcome->stage == STAGE_FAILED)
        return explain_failure(run);
    if (run->outcome->stage != STAGE_DONE || !WIFEXITED(run->status) ||
        WEXITSTATUS(run->status) != 0)
        return explain_death(run);
    return EXIT_OK;
}
