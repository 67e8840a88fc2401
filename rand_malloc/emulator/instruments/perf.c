/* perf.c - instrument "perf": the processor's own counter, opened by the replayer. */
#include "../perf.h"
#include "instrument.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool wrap(const struct options *options, int variant, struct command *prefix, char *reason,
                 unsigned reason_bytes) {
    (void)options;
    (void)prefix;
    reason[0] = '\0';
    if (variant > 0)
        return false;
    int descriptor = perf_open_counter();
    if (descriptor < 0) {
        snprintf(reason, reason_bytes, "perf_event_open: %s%s", strerror(-descriptor),
                 descriptor == -13 ? " (kernel.perf_event_paranoid must be 2 or less)" : "");
        return false;
    }
    close(descriptor);
    return true;
}

static bool read_counts(const struct run *run, struct instructions *counted, char *reason,
                        unsigned reason_bytes) {
    if (!run->outcome->instructions_valid || run->outcome->instructions == 0) {
        snprintf(reason, reason_bytes, "the counter did not run all the time");
        return false;
    }
    *counted = (struct instructions){.process = run->outcome->instructions, .has_process = true};
    return true;
}

const struct instrument PERF = {
    .name = "perf", .counts_in_replayer = true, .wrap = wrap, .read = read_counts};
