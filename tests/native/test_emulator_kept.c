/* A decoded workload in a file: taken again as it was, and written anew where it is of anything
 * else or cut off. */
#include "check.h"
#include "kept.h"
#include "trace.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_trace(const char *path, uint64_t size) {
    struct trace_writer *writer = NULL;
    char message[200];
    const struct trace_event events[] = {
        {.time_ns = 1, .size = size, .slot = 0, .op = TRACE_MALLOC, .api = TRACE_API_MALLOC},
        {.time_ns = 9, .slot = 0, .op = TRACE_FREE, .api = TRACE_API_FREE}};
    require(trace_create(path, "{}", 4096, &writer, message, sizeof message) == TRACE_OK, message);
    require(trace_write(writer, events, 2) == TRACE_OK, "events are written");
    require(trace_finish(writer) == TRACE_OK, "the trace is finished");
}

static uint64_t peak_of(const char *kept, const char *trace, uint64_t seed) {
    struct workload workload;
    require(kept_load(kept, trace, seed, UINT64_MAX, &workload) == 0, "the workload is loaded");
    uint64_t peak = workload.peak_live_bytes;
    require(workload.plan->n_ops == 2 && workload.sample_live[0] <= peak, "and complete");
    workload_release(&workload);
    return peak;
}

static ino_t size_and_time(const char *path, struct timespec *changed) {
    struct stat status;
    require(stat(path, &status) == 0, "the file is there");
    *changed = status.st_mtim;
    return (ino_t)status.st_size;
}

/* Two replays of the same share what is kept; one of anything else leaves it alone, and none waits
 * for another. */
static void check_several(const char *kept, const char *trace) {
    struct workload first, second, shorter;
    require(peak_of(kept, trace, 1) == 70000, "the workload is kept");
    require(kept_load(kept, trace, 1, UINT64_MAX, &first) == 0, "it is taken once");
    require(kept_load(kept, trace, 1, UINT64_MAX, &second) == 0, "and once more");
    require(kept_load(kept, trace, 1, 1, &shorter) == 0, "beside it another is loaded");
    require(shorter.plan->n_ops == 1, "which is what was asked for");
    require(first.plan->n_ops == 2 && second.plan->n_ops == 2, "those in use stay as they are");
    workload_release(&shorter);
    workload_release(&second);
    workload_release(&first);
    struct timespec before, after;
    size_and_time(kept, &before);
    require(kept_load(kept, trace, 1, 1, &shorter) == 0, "afterwards it is kept");
    workload_release(&shorter);
    size_and_time(kept, &after);
    require(memcmp(&before, &after, sizeof before) != 0, "in the place of the other");
}

/* A place that cannot be opened leaves a workload that can be released. */
static void check_no_place(const char *trace) {
    struct workload workload;
    memset(&workload, 0xff, sizeof workload);
    require(kept_load("/no/such/folder/kept", trace, 1, UINT64_MAX, &workload) != 0, "no place");
    require(workload.plan == NULL && workload.plan_fd == -1, "and no workload");
    workload_release(&workload);
}

int main(void) {
    char trace[] = "/tmp/test_emulator_kept_XXXXXX", kept[sizeof trace + 8];
    struct timespec first, second;
    require(mkstemp(trace) >= 0, "a file for the trace");
    snprintf(kept, sizeof kept, "%s.kept", trace);
    write_trace(trace, 100);
    require(peak_of(kept, trace, 1) == 100, "the first time it is decoded");
    size_and_time(kept, &first);
    require(peak_of(kept, trace, 1) == 100, "then it is taken from the file");
    ino_t bytes = size_and_time(kept, &second);
    require(memcmp(&first, &second, sizeof first) == 0, "which is not written again");
    require(truncate(kept, (off_t)bytes - 1) == 0 && peak_of(kept, trace, 1) == 100, "cut off");
    require(size_and_time(kept, &second) == bytes, "it is written again");
    write_trace(trace, 70000);
    require(peak_of(kept, trace, 1) == 70000, "another trace is another workload");
    require(peak_of(kept, trace, 2) == 70000, "so is another seed");
    alarm(60); /* no lock may be waited for that the test itself holds */
    check_several(kept, trace);
    check_no_place(trace);
    unlink(trace);
    unlink(kept);
    return verdict();
}
