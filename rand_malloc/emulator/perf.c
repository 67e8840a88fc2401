/* perf.c - counts user instructions of the region with a hardware counter.
 *
 * The counter is inherited by threads the lanes create; reading it sums them.  It counts
 * the whole process: hardware cannot separate the allocator's text from ours.  A counter
 * that was multiplexed (running < enabled) is reported as not valid, not scaled.
 */
#include "perf.h"
#include "rawsys.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

static struct { int descriptor; } counter = {-1};

int perf_open_counter(void) {
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof attributes,
        .config = PERF_COUNT_HW_INSTRUCTIONS,
        .disabled = 1,
        .inherit = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    return (int)raw_syscall(SYS_perf_event_open, (long)&attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC,
                            0);
}

void perf_open(struct replay *replay) {
    counter.descriptor = perf_open_counter();
    if (counter.descriptor < 0)
        setup_fail(replay, "open the hardware instruction counter", counter.descriptor);
}

void perf_begin(void) {
    raw_syscall3(SYS_ioctl, counter.descriptor, PERF_EVENT_IOC_ENABLE, 0);
}

void perf_end(struct outcome *outcome) {
    uint64_t values[3] = {0, 0, 0}; /* count, enabled ns, running ns */
    raw_syscall3(SYS_ioctl, counter.descriptor, PERF_EVENT_IOC_DISABLE, 0);
    long got = raw_syscall3(SYS_read, counter.descriptor, (long)values, sizeof values);
    outcome->instructions = values[0];
    outcome->instructions_valid = got == (long)sizeof values && values[1] == values[2];
}
