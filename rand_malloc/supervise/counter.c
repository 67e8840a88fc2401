/* An event counted over a program: see counter.h.  Source: perf_event_open(2). */
#include "counter.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

int counter_open(pid_t pid, uint32_t type, uint64_t config) {
    struct perf_event_attr attributes = {
        .type = type,
        .size = sizeof attributes,
        .config = config,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = 1,
        .inherit = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .enable_on_exec = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int counter_open_instructions(pid_t pid) {
    return counter_open(pid, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
}

bool counter_read(int fd, uint64_t *count) {
    struct {
        uint64_t value;
        uint64_t enabled_ns;
        uint64_t running_ns;
    } reading;
    if (fd < 0 || read(fd, &reading, sizeof reading) != (ssize_t)sizeof reading ||
        reading.enabled_ns == 0 || reading.running_ns < reading.enabled_ns)
        return false;
    *count = reading.value;
    return true;
}

bool counter_take(int fd, uint64_t *count) {
    bool is_read = counter_read(fd, count);
    if (fd >= 0)
        close(fd);
    return is_read;
}
