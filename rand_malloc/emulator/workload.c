/* workload.c - reads a trace, schedules it and has its plan written; see workload.h.
 *
 * One thread needs no schedule: its events go from the reader into the plan, a few at a time.
 */
#include "workload.h"
#include "large.h"
#include "message.h"
#include "options.h"
#include "plan_writer.h"
#include "schedule.h"
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHUNK_EVENTS = 1024 /* stay in the cache between reader and plan */
};

static int complain_of_plan(uint64_t n_events) {
    return complain(EXIT_REPLAY, "plan", "cannot write %" PRIu64 " events: %m", n_events);
}

/* ---- events in memory ---- */

static bool is_heap_event(const struct trace_event *event) {
    return event->op < TRACE_THREAD_START;
}

static struct plan_extent extent_of(const struct trace_event *events,
                                    const struct trace_info *info) {
    struct plan_extent extent = {.last_ns = info->duration_ns, .life = info->life};
    for (uint64_t i = 0; i < info->n_events; i++)
        extent.n_ops += is_heap_event(&events[i]);
    if (info->n_events > 0) {
        extent.first_ns = events[0].time_ns;
        if (events[info->n_events - 1].time_ns > extent.last_ns)
            extent.last_ns = events[info->n_events - 1].time_ns;
    }
    return extent;
}

/* Adds the events of a turn, which is numbered in positions, and numbers it in operations. */
static bool add_turn(struct plan_writer *writer, const struct trace_event *events,
                     const struct schedule *schedule, uint64_t index) {
    const struct turn *turn = &schedule->turns[index];
    plan_writer_begin_turn(writer, index);
    for (uint64_t position = turn->begin; position < turn->end; position++) {
        uint32_t event = schedule->order[position];
        if (!is_heap_event(&events[event]))
            continue;
        writer->workload->event_of_op[writer->n_ops] = event;
        if (!plan_writer_add(writer, &events[event], 1))
            return false;
    }
    plan_writer_end_turn(writer, index, events[schedule->order[turn->end - 1]].time_ns);
    return true;
}

static bool add_scheduled(struct plan_writer *writer, const struct trace_event *events,
                          const struct schedule *schedule) {
    bool is_added = true;
    for (uint64_t index = 0; is_added && index < schedule->n_turns; index++)
        is_added = add_turn(writer, events, schedule, index);
    return is_added;
}

int workload_from_events(const struct trace_event *events, const struct trace_info *info,
                         struct workload *workload) {
    struct schedule schedule = {.n_turns = 0};
    struct plan_writer writer;
    *workload = (struct workload){.info = *info, .plan_fd = -1};
    uint32_t n_threads = info->n_threads > 0 ? info->n_threads : 1;
    if (info->n_events >= UINT32_MAX)
        return complain(EXIT_TRACE, "trace", "more than 2^32 - 2 events");
    if (!schedule_build(events, (uint32_t)info->n_events, n_threads, info->n_slots, &schedule))
        return complain(EXIT_REPLAY, "schedule", "not enough memory for %" PRIu64 " events",
                        info->n_events);
    struct plan_extent extent = extent_of(events, info);
    struct trace_info planned = *info;
    planned.duration_ns = extent.last_ns;
    workload->event_of_op = large_alloc(extent.n_ops + 1, sizeof(uint32_t));
    bool is_written = plan_writer_open(&writer, &extent, &schedule, workload) &&
                      workload->event_of_op != NULL && add_scheduled(&writer, events, &schedule) &&
                      plan_writer_finish(&writer, &planned);
    plan_writer_close(&writer);
    schedule_release(&schedule);
    return is_written ? 0 : complain_of_plan(info->n_events);
}

/* Reads all events into an array of info->n_events. */
static int read_events(struct source *source, struct trace_info *info, struct trace_event *events) {
    uint64_t done = 0;
    while (done < info->n_events) {
        size_t got = 0;
        int status = source_read(source, events + done, (size_t)(info->n_events - done), &got);
        if (status == TRACE_END)
            break;
        if (status != TRACE_OK)
            return complain_as_is(EXIT_TRACE, source_message(source));
        done += got;
    }
    info->n_events = done;
    return 0;
}

/* Plans the first most_events events of any threads. */
static int load_threads(struct source *source, const char *path, uint64_t most_events,
                        struct workload *workload) {
    struct trace_info info;
    source_get_info(source, &info);
    uint64_t n_events = info.n_events < most_events ? info.n_events : most_events;
    struct trace_event *events = large_alloc(n_events + 1, sizeof *events);
    if (events == NULL)
        return complain(EXIT_TRACE, path, "not enough memory for %" PRIu64 " events", n_events);
    info.n_events = n_events;
    int code = read_events(source, &info, events);
    n_events = info.n_events;
    source_get_info(source, &info); /* a profile's are known now */
    info.n_events = n_events;
    if (code == 0)
        code = workload_from_events(events, &info, workload);
    free(events);
    return code;
}

/* ---- events of one thread ---- */

/* Reads the next events into the chunk, at most n_left. */
static int read_chunk(struct source *source, struct trace_event *chunk, uint64_t n_left,
                      size_t *n_read) {
    size_t capacity = n_left < CHUNK_EVENTS ? (size_t)n_left : CHUNK_EVENTS;
    *n_read = 0;
    int status = capacity > 0 ? source_read(source, chunk, capacity, n_read) : TRACE_END;
    return status == TRACE_OK || status == TRACE_END
               ? 0
               : complain_as_is(EXIT_TRACE, source_message(source));
}

/* Plans the chunk and what follows it. */
static int stream_events(struct source *source, struct plan_writer *writer,
                         struct trace_event *chunk, size_t n_read, uint64_t n_events) {
    int code = 0;
    if (n_read == 0)
        return 0;
    plan_writer_begin_turn(writer, 0);
    while (code == 0 && n_read > 0) {
        if (!plan_writer_add(writer, chunk, n_read))
            return complain_of_plan(n_events);
        code = read_chunk(source, chunk, n_events - writer->n_ops, &n_read);
    }
    plan_writer_end_turn(writer, 0, writer->now_ns);
    return code;
}

static int load_single(struct source *source, struct workload *workload) {
    static struct trace_event chunk[CHUNK_EVENTS];
    struct trace_info *info = &workload->info;
    struct schedule schedule;
    struct plan_writer writer = {.plan = NULL};
    size_t n_read;
    source_get_info(source, info);
    uint64_t n_events = info->n_events;
    if (n_events >= UINT32_MAX)
        return complain(EXIT_TRACE, "trace", "more than 2^32 - 2 events");
    int code = read_chunk(source, chunk, n_events, &n_read);
    if (code != 0)
        return code;
    struct plan_extent extent = {.n_ops = n_events,
                                 .first_ns = n_read > 0 ? chunk[0].time_ns : 0,
                                 .last_ns = info->duration_ns,
                                 .life = info->life};
    if (!schedule_single(n_events, &schedule) ||
        !plan_writer_open(&writer, &extent, &schedule, workload))
        code = complain_of_plan(n_events);
    if (code == 0)
        code = stream_events(source, &writer, chunk, n_read, n_events);
    source_get_info(source, info); /* a profile's are known now */
    if (code == 0 && !plan_writer_finish(&writer, info))
        code = complain_of_plan(n_events);
    plan_writer_close(&writer);
    schedule_release(&schedule);
    return code;
}

/* ---- any ---- */

static struct workload_model model_of(const struct source *source) {
    struct workload_model model = {.is_low_fidelity = source_is_low_fidelity(source)};
    snprintf(model.level, sizeof model.level, "%s", source_level(source));
    return model;
}

int workload_load(const char *path, uint64_t seed, uint64_t most_events,
                  struct workload *workload) {
    struct source *source = NULL;
    struct trace_info info;
    char message[512] = "";
    *workload = (struct workload){.plan_fd = -1};
    /* What follows the first events counts too, for the time they are spread over. */
    bool is_all = most_events == UINT64_MAX;
    int status =
        (is_all ? source_stream : source_open)(path, seed, &source, message, sizeof message);
    if (status != TRACE_OK)
        return complain_as_is(EXIT_TRACE, message);
    source_get_info(source, &info);
    int code = is_all && info.n_threads == 1 ? load_single(source, workload)
                                             : load_threads(source, path, most_events, workload);
    workload->model = model_of(source);
    source_close(source);
    return code;
}

/* A replay of what --keep has put there reads it, perhaps this one. */
static bool is_in_use(const char *path) {
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool is_locked = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0;
    bool is_used = is_locked && errno == EWOULDBLOCK;
    if (descriptor >= 0)
        close(descriptor);
    return is_used;
}

int workload_save_plan(const struct workload *workload, uint32_t touch, uint64_t seed,
                       const char *path) {
    if (is_in_use(path))
        return complain(EXIT_USAGE, path, "is in use as --keep: name another file");
    FILE *file = fopen(path, "we");
    struct plan header = *workload->plan;
    size_t rest = (size_t)header.file_bytes - sizeof header;
    header.touch = touch;
    header.seed = seed;
    bool is_written = file != NULL && fwrite(&header, sizeof header, 1, file) == 1 &&
                      fwrite(workload->plan + 1, 1, rest, file) == rest;
    if (file != NULL && fclose(file) != 0)
        is_written = false;
    return is_written ? 0 : complain(EXIT_REPLAY, path, "%m");
}

uint64_t workload_event_of(const struct workload *workload, uint64_t op) {
    return workload->event_of_op != NULL ? workload->event_of_op[op] : op;
}

void workload_release(struct workload *workload) {
    if (workload->plan != NULL)
        munmap((void *)(uintptr_t)workload->plan, workload->plan->file_bytes);
    if (workload->plan_fd >= 0)
        close(workload->plan_fd);
    free(workload->event_of_op);
    free(workload->sample_live);
    *workload = (struct workload){.plan_fd = -1};
}

uint64_t workload_live_during(const struct workload *workload, uint64_t op) {
    const struct op *ops = plan_at(workload->plan, workload->plan->ops_offset);
    uint64_t *bytes = calloc((size_t)workload->plan->n_slots + 1, sizeof *bytes);
    uint64_t live = 0, before = 0;
    for (uint64_t i = 0; bytes != NULL && i <= op && i < workload->plan->n_ops; i++) {
        before = live;
        live -= bytes[ops[i].slot];
        bytes[ops[i].slot] = ops[i].kind == TRACE_FREE ? 0 : op_size(&ops[i]);
        live += bytes[ops[i].slot];
    }
    free(bytes);
    return live > before ? live : before;
}
