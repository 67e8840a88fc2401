/* cachegrind.c - instrument "cachegrind": valgrind's instruction counter.
 *
 * It counts the whole life of the process and cannot tell objects apart, so the same
 * run without operations is subtracted and the allocator's share stays unknown.
 */
#include "instrument.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool wrap(const struct options *options, int variant, struct command *prefix, char *reason,
                 unsigned reason_bytes) {
    char program[PATH_MAX];
    (void)options;
    reason[0] = '\0';
    if (variant > 0)
        return false;
    if (!instrument_find_program("valgrind", program, sizeof program)) {
        snprintf(reason, reason_bytes, "valgrind is not installed (package valgrind)");
        return false;
    }
    command_add(prefix, "%s", program);
    command_add(prefix, "--tool=cachegrind");
    command_add(prefix, "--cache-sim=no");
    command_add(prefix, "-q");
    command_add(prefix, "--cachegrind-out-file=/proc/self/fd/%d", COUNTER_FD);
    return true;
}

/* The out file ends with "summary: N". */
static bool read_counts(const struct run *run, struct instructions *counted, char *reason,
                        unsigned reason_bytes) {
    char text[256];
    off_t size = lseek(run->counter_fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text - 1 ? size - (off_t)sizeof text + 1 : 0;
    ssize_t length = pread(run->counter_fd, text, sizeof text - 1, from);
    text[length > 0 ? length : 0] = '\0';
    const char *summary = strstr(text, "summary: ");
    *counted = (struct instructions){.process = 0};
    if (summary != NULL && sscanf(summary, "summary: %" SCNu64, &counted->process) == 1)
        return true;
    snprintf(reason, reason_bytes, "cachegrind wrote no summary");
    return false;
}

const struct instrument CACHEGRIND = {
    .name = "cachegrind", .needs_empty_run = true, .wrap = wrap, .read = read_counts};
