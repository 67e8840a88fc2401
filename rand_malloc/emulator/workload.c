/* workload.c - reads a trace, schedules it and writes the sealed plan; see workload.h.
 *
 * Samples are taken after every 1/10 000 of the operations, after every 1/10 000 of
 * the trace's time, and before every pause of that length, so that a mean weighted by time
 * is not wrong where the program slept.
 */
#include "workload.h"
#include "large.h"
#include "message.h"
#include "options.h"
#include "schedule.h"
#include "source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Allocators shift blocks against pages by their headers, so that a part of whole pages would
 * reach into one page more. */
#define HEADER_BYTES UINT64_C(64)

/* The plan while it is being written. */
struct draft_plan {
    const struct trace_event *events;
    const struct schedule *schedule;
    struct workload *workload;
    struct plan *plan;
    struct op *ops;
    struct turn *turns;
    uint64_t *samples;
    struct partial *partials;
    uint64_t *slot_bytes; /* [n_slots] of the live block */
    uint64_t live_bytes;
    uint64_t now_ns;
    uint64_t sampled_ns; /* time and operations at the last sample */
    uint64_t sampled_ops;
    double live_integral; /* bytes * ns */
};

static uint64_t align_up(uint64_t value) {
    return (value + 63) & ~UINT64_C(63);
}

static bool is_heap_event(const struct trace_event *event) {
    return event->op < TRACE_THREAD_START;
}

/* The part of the block that the program touched; its size where that is all, or not known.
 * Of a block that was never touched it is a word. */
static uint64_t touched_bytes(const struct trace_event *event, uint32_t page_bytes) {
    uint64_t untouched = trace_untouched(event, page_bytes);
    if (untouched == 0)
        return event->size;
    untouched += HEADER_BYTES;
    return untouched + sizeof(uint64_t) < event->size ? event->size - untouched : sizeof(uint64_t);
}

static bool is_partial(const struct trace_event *event) {
    return event->touch > 1 && is_heap_event(event);
}

static struct plan layout(const struct trace_event *events, const struct trace_info *info,
                          const struct schedule *schedule) {
    struct plan plan = {.magic = PLAN_MAGIC,
                        .n_events = info->n_events,
                        .n_lanes = schedule->n_lanes,
                        .n_slots = info->n_slots,
                        .n_stacks = schedule->n_stacks,
                        .n_turns = schedule->n_turns};
    for (uint64_t i = 0; i < info->n_events; i++) {
        plan.n_ops += is_heap_event(&events[i]);
        plan.n_partials += is_partial(&events[i]);
    }
    if (info->n_events > 0) {
        plan.begin_ns = events[0].time_ns;
        plan.end_ns = events[info->n_events - 1].time_ns;
    }
    if (info->duration_ns > plan.end_ns)
        plan.end_ns = info->duration_ns;
    plan.ops_offset = align_up(sizeof plan);
    plan.turns_offset = align_up(plan.ops_offset + plan.n_ops * sizeof(struct op));
    plan.lanes_offset = align_up(plan.turns_offset + plan.n_turns * sizeof(struct turn));
    plan.partials_offset = align_up(plan.lanes_offset + plan.n_lanes * sizeof(struct lane));
    plan.samples_offset = align_up(plan.partials_offset + plan.n_partials * sizeof(struct partial));
    /* Each of the three rules gives at most WORKLOAD_SAMPLES + 1. */
    plan.file_bytes = plan.samples_offset + 3 * (WORKLOAD_SAMPLES + 2) * sizeof(uint64_t);
    return plan;
}

static uint64_t share(uint64_t whole) {
    return whole / WORKLOAD_SAMPLES + 1;
}

/* Is the heap to be read after operation `done` - 1, with the next one at next_ns? */
static bool is_sample_point(const struct draft_plan *draft, uint64_t done, uint64_t next_ns) {
    const struct plan *plan = draft->plan;
    uint64_t pause_ns = share(plan->end_ns - plan->begin_ns);
    return done == plan->n_ops || done - draft->sampled_ops >= share(plan->n_ops) ||
           draft->now_ns - draft->sampled_ns >= pause_ns ||
           (next_ns > draft->now_ns && next_ns - draft->now_ns >= pause_ns);
}

static void note_sample(struct draft_plan *draft, uint64_t done) {
    uint64_t index = draft->plan->n_samples++;
    draft->samples[index] = done;
    draft->workload->sample_ns[index] = draft->now_ns;
    draft->workload->sample_live[index] = draft->live_bytes;
    draft->sampled_ops = done;
    draft->sampled_ns = draft->now_ns;
}

static void count_live(struct draft_plan *draft, const struct trace_event *event) {
    uint64_t *bytes = &draft->slot_bytes[event->slot];
    draft->live_bytes -= *bytes;
    *bytes = event->op == TRACE_FREE ? 0 : event->size;
    draft->live_bytes += *bytes;
    if (draft->live_bytes > draft->workload->peak_live_bytes)
        draft->workload->peak_live_bytes = draft->live_bytes;
}

static void advance_time(struct draft_plan *draft, uint64_t time_ns) {
    if (time_ns <= draft->now_ns)
        return;
    draft->live_integral += (double)draft->live_bytes * (double)(time_ns - draft->now_ns);
    draft->now_ns = time_ns;
}

static void note_partial(struct draft_plan *draft, struct op *op, uint64_t op_index,
                         const struct trace_event *event) {
    op->details |= OP_IS_PARTIAL;
    *draft->partials++ =
        (struct partial){op_index, touched_bytes(event, draft->workload->info.page_bytes)};
}

static void append_op(struct draft_plan *draft, uint64_t op_index, uint32_t event_index) {
    const struct trace_event *event = &draft->events[event_index];
    advance_time(draft, event->time_ns);
    count_live(draft, event);
    draft->workload->event_of_op[op_index] = event_index;
    draft->ops[op_index] = (struct op){
        .time_ns = draft->now_ns,
        .slot = event->slot,
        .sequence = draft->schedule->sequences[event_index],
        .size_low = (uint32_t)event->size,
        .size_high = (uint16_t)(event->size >> 32),
        .kind = event->op,
        .details = event->align_log2,
    };
    if (is_partial(event))
        note_partial(draft, &draft->ops[op_index], op_index, event);
}

/* Time of the first operation from a position of the order on, for the pause rule.  Events
 * of threads are passed over: they do not advance our time, so many of them would each ask
 * for a sample, more than there is room for. */
static uint64_t next_time(const struct draft_plan *draft, uint64_t position) {
    for (; position < draft->plan->n_events; position++) {
        const struct trace_event *event = &draft->events[draft->schedule->order[position]];
        if (is_heap_event(event))
            return event->time_ns;
    }
    return draft->plan->end_ns;
}

static void fill_plan(struct draft_plan *draft) {
    uint64_t done = 0;
    draft->now_ns = draft->sampled_ns = draft->plan->begin_ns;
    for (uint64_t i = 0; i < draft->plan->n_turns; i++) {
        struct turn turn = draft->schedule->turns[i];
        uint64_t first_op = done;
        for (uint64_t position = turn.begin; position < turn.end; position++) {
            uint32_t event = draft->schedule->order[position];
            if (!is_heap_event(&draft->events[event]))
                continue;
            append_op(draft, done++, event);
            if (is_sample_point(draft, done, next_time(draft, position + 1)))
                note_sample(draft, done);
        }
        turn.begin = first_op;
        turn.end = done;
        draft->turns[i] = turn;
    }
    draft->workload->final_live_bytes = draft->live_bytes;
    advance_time(draft, draft->plan->end_ns);
}

static void finish_means(struct draft_plan *draft) {
    struct workload *workload = draft->workload;
    double duration = (double)(draft->plan->end_ns - draft->plan->begin_ns);
    if (duration > 0) {
        workload->mean_live_bytes = draft->live_integral / duration;
        return;
    }
    double sum = 0; /* a trace without a clock: every sample counts alike */
    for (uint64_t i = 0; i < draft->plan->n_samples; i++)
        sum += (double)workload->sample_live[i];
    if (draft->plan->n_samples > 0)
        workload->mean_live_bytes = sum / (double)draft->plan->n_samples;
}

static bool seal_and_map(struct workload *workload, uint64_t bytes) {
    if (fcntl(workload->plan_fd, F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return false;
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, workload->plan_fd, 0);
    workload->plan = mapped == MAP_FAILED ? NULL : mapped;
    return workload->plan != NULL;
}

static bool write_plan(struct draft_plan *draft, const struct plan *header) {
    struct workload *workload = draft->workload;
    workload->plan_fd = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (workload->plan_fd < 0 || ftruncate(workload->plan_fd, (off_t)header->file_bytes) != 0)
        return false;
    void *mapped =
        mmap(NULL, header->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, workload->plan_fd, 0);
    if (mapped == MAP_FAILED)
        return false;
    char *base = mapped;
    draft->plan = mapped;
    *draft->plan = *header;
    draft->ops = (struct op *)(void *)(base + header->ops_offset);
    draft->turns = (struct turn *)(void *)(base + header->turns_offset);
    draft->samples = (uint64_t *)(void *)(base + header->samples_offset);
    draft->partials = (struct partial *)(void *)(base + header->partials_offset);
    memcpy(base + header->lanes_offset, draft->schedule->lanes,
           header->n_lanes * sizeof(struct lane));
    fill_plan(draft);
    finish_means(draft);
    munmap(mapped, header->file_bytes);
    return seal_and_map(workload, header->file_bytes);
}

static bool allocate_notes(struct workload *workload, const struct plan *plan) {
    size_t samples = 3 * (WORKLOAD_SAMPLES + 2);
    workload->event_of_op = large_alloc(plan->n_ops + 1, sizeof(uint32_t));
    workload->sample_ns = calloc(samples, sizeof(uint64_t));
    workload->sample_live = calloc(samples, sizeof(uint64_t));
    return workload->event_of_op && workload->sample_ns && workload->sample_live;
}

int workload_from_events(const struct trace_event *events, const struct trace_info *info,
                         struct workload *workload) {
    struct schedule schedule = {.n_turns = 0};
    *workload = (struct workload){.info = *info, .plan_fd = -1};
    uint32_t n_threads = info->n_threads > 0 ? info->n_threads : 1;
    if (info->n_events >= UINT32_MAX)
        return complain(EXIT_TRACE, "trace", "more than 2^32 - 2 events");
    if (!schedule_build(events, (uint32_t)info->n_events, n_threads, info->n_slots, &schedule))
        return complain(EXIT_REPLAY, "schedule", "not enough memory for %" PRIu64 " events",
                        info->n_events);
    struct plan header = layout(events, info, &schedule);
    struct draft_plan draft = {.events = events, .schedule = &schedule, .workload = workload};
    draft.slot_bytes = calloc((size_t)info->n_slots + 1, sizeof(uint64_t));
    bool is_written = draft.slot_bytes != NULL && allocate_notes(workload, &header) &&
                      write_plan(&draft, &header);
    free(draft.slot_bytes);
    schedule_release(&schedule);
    return is_written ? 0
                      : complain(EXIT_REPLAY, "plan", "cannot write %" PRIu64 " bytes: %m",
                                 header.file_bytes);
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

static int check_sizes(const char *path, const struct trace_event *events, uint64_t n_events) {
    for (uint64_t i = 0; i < n_events; i++)
        if (events[i].size >= OP_SIZE_LIMIT)
            return complain(EXIT_TRACE, path, "event %" PRIu64 " asks for %" PRIu64 " bytes", i,
                            events[i].size);
    return 0;
}

/* Plans the first info->n_events events of the source; those of a profile are in memory. */
static int load_events(struct source *source, const char *path, struct trace_info *info,
                       struct workload *workload) {
    const struct trace_event *events = source_events(source);
    struct trace_event *read = NULL;
    int code = 0;
    if (events == NULL) {
        events = read = large_alloc(info->n_events + 1, sizeof *read);
        if (read == NULL)
            return complain(EXIT_TRACE, path, "not enough memory for %" PRIu64 " events",
                            info->n_events);
        code = read_events(source, info, read);
    }
    if (code == 0)
        code = check_sizes(path, events, info->n_events);
    if (code == 0)
        code = workload_from_events(events, info, workload);
    free(read);
    return code;
}

static struct workload_model model_of(const struct source *source) {
    struct workload_model model = {.is_low_fidelity = source_is_low_fidelity(source)};
    const struct classic_figures *classic = source_classic(source);
    snprintf(model.level, sizeof model.level, "%s", source_level(source));
    if (classic != NULL) {
        model.is_classic = true;
        model.classic = *classic;
    }
    return model;
}

int workload_load(const char *path, uint64_t seed, uint64_t most_events,
                  struct workload *workload) {
    struct source *source = NULL;
    char message[512] = "";
    *workload = (struct workload){.plan_fd = -1};
    if (source_open(path, seed, &source, message, sizeof message) != TRACE_OK)
        return complain_as_is(EXIT_TRACE, message);
    struct trace_info info;
    source_get_info(source, &info);
    if (info.n_events > most_events)
        info.n_events = most_events;
    int code = load_events(source, path, &info, workload);
    workload->model = model_of(source);
    source_close(source);
    return code;
}

int workload_save_plan(const struct workload *workload, const char *path) {
    FILE *file = fopen(path, "we");
    size_t n_bytes = (size_t)workload->plan->file_bytes;
    bool is_written = file != NULL && fwrite(workload->plan, 1, n_bytes, file) == n_bytes;
    if (file != NULL && fclose(file) != 0)
        is_written = false;
    return is_written ? 0 : complain(EXIT_REPLAY, path, "%m");
}

void workload_release(struct workload *workload) {
    if (workload->plan != NULL)
        munmap((void *)(uintptr_t)workload->plan, workload->plan->file_bytes);
    if (workload->plan_fd >= 0)
        close(workload->plan_fd);
    free(workload->event_of_op);
    free(workload->sample_ns);
    free(workload->sample_live);
    *workload = (struct workload){.plan_fd = -1};
}

uint64_t workload_live_after(const struct workload *workload, uint64_t op) {
    const struct op *ops = plan_at(workload->plan, workload->plan->ops_offset);
    uint64_t *bytes = calloc((size_t)workload->plan->n_slots + 1, sizeof *bytes);
    uint64_t live = 0;
    for (uint64_t i = 0; bytes != NULL && i <= op && i < workload->plan->n_ops; i++) {
        live -= bytes[ops[i].slot];
        bytes[ops[i].slot] = ops[i].kind == TRACE_FREE ? 0 : op_size(&ops[i]);
        live += bytes[ops[i].slot];
    }
    free(bytes);
    return live;
}
