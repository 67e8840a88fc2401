/* plan_writer.c - see plan_writer.h. */
#include "plan_writer.h"
#include "large.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Each of the three rules for samples gives at most WORKLOAD_SAMPLES + 1; pauses, start and end. */
#define MOST_SAMPLES (3 * (WORKLOAD_SAMPLES + 2) + IDLE_SAMPLES + 2)

/* Pauses are read at most so often; jemalloc's background thread sleeps as long at least. */
#define IDLE_SAMPLES  UINT64_C(500)
#define LEAST_IDLE_NS UINT64_C(100000000)

/* Allocators shift blocks against pages by their headers, so that a part of whole pages would
 * reach into one page more. */
#define HEADER_BYTES UINT64_C(64)

enum {
    INITIAL_SLOTS = 4096,
    PREFETCHED = 8 /* events between asking for a slot's state and using it */
};

struct slot_state {
    uint64_t bytes;         /* of the live block */
    uint32_t next_sequence; /* of the operations of this slot */
};

_Static_assert(TRACE_MAX_SIZE < OP_SIZE_LIMIT, "an operation holds every size of a trace");

/* ---- opening ---- */

static uint64_t align_up(uint64_t value) {
    return (value + 63) & ~UINT64_C(63);
}

/* With room for what may come; partial operations stand last, where the file is cut off. */
static struct plan layout(const struct plan_extent *extent, const struct schedule *schedule) {
    struct plan plan = {.magic = PLAN_MAGIC,
                        .n_lanes = schedule->n_lanes,
                        .n_stacks = schedule->n_stacks,
                        .n_turns = schedule->n_turns};
    plan.begin_ns = extent->life.has_start ? extent->life.start_ns : extent->first_ns;
    plan.end_ns = extent->life.has_end ? extent->life.end_ns : extent->last_ns;
    plan.ops_offset = align_up(sizeof plan);
    plan.turns_offset = align_up(plan.ops_offset + extent->n_ops * sizeof(struct op));
    plan.lanes_offset = align_up(plan.turns_offset + plan.n_turns * sizeof(struct turn));
    plan.samples_offset = align_up(plan.lanes_offset + plan.n_lanes * sizeof(struct lane));
    plan.partials_offset =
        align_up(plan.samples_offset + MOST_SAMPLES * sizeof(struct sample_point));
    plan.file_bytes = plan.partials_offset + extent->n_ops * sizeof(struct partial);
    return plan;
}

static bool map_plan(struct plan_writer *writer, const struct plan *header) {
    struct workload *workload = writer->workload;
    workload->plan_fd = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (workload->plan_fd < 0 || ftruncate(workload->plan_fd, (off_t)header->file_bytes) != 0)
        return false;
    void *mapped =
        mmap(NULL, header->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, workload->plan_fd, 0);
    if (mapped == MAP_FAILED)
        return false;
    writer->plan = mapped;
    *writer->plan = *header;
    return true;
}

static void note_sample(struct plan_writer *writer) {
    uint64_t index = writer->plan->n_samples++;
    writer->samples[index] = (struct sample_point){writer->n_ops, writer->now_ns};
    writer->workload->sample_live[index] = writer->live_bytes;
    writer->sampled_ops = writer->n_ops;
    writer->sampled_ns = writer->now_ns;
    writer->is_sampled = true;
}

static uint64_t share(uint64_t whole) {
    return whole / WORKLOAD_SAMPLES + 1;
}

static uint64_t idle_share(uint64_t whole_ns) {
    uint64_t share_ns = whole_ns / IDLE_SAMPLES + 1;
    return share_ns > LEAST_IDLE_NS ? share_ns : LEAST_IDLE_NS;
}

bool plan_writer_open(struct plan_writer *writer, const struct plan_extent *extent,
                      const struct schedule *schedule, struct workload *workload) {
    struct plan header = layout(extent, schedule);
    uint64_t from_ns = header.begin_ns < extent->first_ns ? header.begin_ns : extent->first_ns;
    *writer = (struct plan_writer){.workload = workload,
                                   .life = extent->life,
                                   .now_ns = from_ns,
                                   .sampled_ns = from_ns,
                                   .sample_ns = share(header.end_ns - from_ns),
                                   .idle_ns = idle_share(header.end_ns - from_ns),
                                   .sample_ops = share(extent->n_ops)};
    workload->sample_live = calloc(MOST_SAMPLES, sizeof(uint64_t));
    if (workload->sample_live == NULL || !map_plan(writer, &header))
        return false;
    char *base = (char *)writer->plan;
    writer->ops = (struct op *)(void *)(base + header.ops_offset);
    writer->samples = (struct sample_point *)(void *)(base + header.samples_offset);
    writer->partials = (struct partial *)(void *)(base + header.partials_offset);
    if (header.n_turns > 0)
        memcpy(base + header.turns_offset, schedule->turns, header.n_turns * sizeof(struct turn));
    memcpy(base + header.lanes_offset, schedule->lanes, header.n_lanes * sizeof(struct lane));
    if (extent->life.has_start && header.begin_ns <= extent->first_ns)
        note_sample(writer);
    return true;
}

/* ---- samples ---- */

/* Is the heap to be read after the last operation, with the next one at next_ns? */
static bool is_sample_point(const struct plan_writer *writer, uint64_t next_ns) {
    return writer->n_ops - writer->sampled_ops >= writer->sample_ops ||
           writer->now_ns - writer->sampled_ns >= writer->sample_ns ||
           (next_ns > writer->now_ns && next_ns - writer->now_ns >= writer->sample_ns);
}

static struct turn *planned_turn(struct plan_writer *writer, uint64_t index) {
    char *turns = (char *)writer->plan + writer->plan->turns_offset;
    return (struct turn *)(void *)turns + index;
}

static void advance_time(struct plan_writer *writer, uint64_t time_ns) {
    if (time_ns <= writer->now_ns)
        return;
    uint64_t begin_ns = writer->plan->begin_ns;
    if (time_ns > begin_ns) {
        uint64_t from_ns = writer->now_ns > begin_ns ? writer->now_ns : begin_ns;
        writer->live_integral += (double)writer->live_bytes * (double)(time_ns - from_ns);
    }
    writer->now_ns = time_ns;
}

/* Notes that the heap is to be read now, if it is a sample point, and again and again in a pause:
 * threads of the allocator may give memory back meanwhile. */
static void sample_before(struct plan_writer *writer, uint64_t next_ns) {
    if (writer->n_ops == 0)
        return;
    if (!writer->is_sampled && is_sample_point(writer, next_ns))
        note_sample(writer);
    for (; next_ns > writer->now_ns && next_ns - writer->now_ns > writer->idle_ns &&
           writer->n_idle < IDLE_SAMPLES;
         writer->n_idle++) {
        advance_time(writer, writer->now_ns + writer->idle_ns);
        note_sample(writer);
    }
}

/* ---- operations ---- */

/* Room for the slot and all below. */
static bool grow_slots(struct plan_writer *writer, uint32_t slot) {
    size_t capacity = writer->slot_capacity > 0 ? writer->slot_capacity : INITIAL_SLOTS;
    while (capacity <= slot)
        capacity *= 2;
    struct slot_state *slots = realloc(writer->slots, capacity * sizeof *slots);
    if (slots == NULL)
        return false;
    memset(slots + writer->slot_capacity, 0, (capacity - writer->slot_capacity) * sizeof *slots);
    writer->slots = slots;
    writer->slot_capacity = capacity;
    return true;
}

static void count_live(struct plan_writer *writer, struct slot_state *slot,
                       const struct trace_event *event) {
    writer->live_bytes -= slot->bytes;
    slot->bytes = event->op == TRACE_FREE ? 0 : event->size;
    writer->live_bytes += slot->bytes;
    if (writer->live_bytes > writer->workload->peak_live_bytes)
        writer->workload->peak_live_bytes = writer->live_bytes;
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

/* What the event says of touching, or what the last block like it has shown. */
static uint32_t find_touch(struct plan_writer *writer, const struct trace_event *event) {
    uint64_t hash = (event->size ^ (uint64_t)event->op << 56) * UINT64_C(0x9e3779b97f4a7c15);
    struct known_touch *known = &writer->known[hash >> (64 - KNOWN_TOUCH_BITS)];
    if (event->touch != 0)
        *known = (struct known_touch){event->size, event->touch, event->op};
    return known->size == event->size && known->op == event->op ? known->touch : 0;
}

static void note_touch(struct plan_writer *writer, struct op *op, const struct trace_event *event) {
    struct trace_event found = *event;
    found.touch = find_touch(writer, event);
    if (found.touch <= 1)
        return;
    op->details |= OP_IS_PARTIAL;
    writer->partials[writer->plan->n_partials++] =
        (struct partial){writer->n_ops, touched_bytes(&found, writer->workload->info.page_bytes)};
}

static bool add_op(struct plan_writer *writer, const struct trace_event *event) {
    if (event->slot >= writer->slot_capacity && !grow_slots(writer, event->slot))
        return false;
    sample_before(writer, event->time_ns);
    struct slot_state *slot = &writer->slots[event->slot];
    struct op *op = &writer->ops[writer->n_ops];
    advance_time(writer, event->time_ns);
    count_live(writer, slot, event);
    *op = (struct op){
        .time_ns = writer->now_ns,
        .slot = event->slot,
        .sequence = slot->next_sequence++,
        .size_low = (uint32_t)event->size,
        .size_high = (uint16_t)(event->size >> 32),
        .kind = event->op,
        .details = event->align_log2,
    };
    if (event->touch != 0 || (event->size >= TRACE_TOUCH_LEAST_BYTES && event->op != TRACE_FREE))
        note_touch(writer, op, event);
    writer->n_ops++;
    writer->is_sampled = false;
    return true;
}

bool plan_writer_add(struct plan_writer *writer, const struct trace_event *events,
                     size_t n_events) {
    for (size_t i = 0; i < n_events; i++) {
        if (i + PREFETCHED < n_events && events[i + PREFETCHED].slot < writer->slot_capacity)
            __builtin_prefetch(&writer->slots[events[i + PREFETCHED].slot], 1);
        if (!add_op(writer, &events[i]))
            return false;
    }
    return true;
}

void plan_writer_begin_turn(struct plan_writer *writer, uint64_t index) {
    planned_turn(writer, index)->begin = writer->n_ops;
    planned_turn(writer, index)->first_sample = writer->plan->n_samples;
}

void plan_writer_end_turn(struct plan_writer *writer, uint64_t index, uint64_t last_ns) {
    struct turn *turn = planned_turn(writer, index);
    turn->end = writer->n_ops;
    if ((turn->flags & TURN_EXITS) != 0) {
        /* Turns run one after the other, also those whose times overlap. */
        turn->exit_ns = last_ns > writer->now_ns ? last_ns : writer->now_ns;
        sample_before(writer, last_ns);
    }
    if (index + 1 == writer->plan->n_turns && writer->n_ops > writer->sampled_ops)
        note_sample(writer);
    turn->end_sample = writer->plan->n_samples;
    if ((turn->flags & TURN_EXITS) == 0)
        return;
    advance_time(writer, last_ns);
    writer->is_sampled = false;
}

/* ---- the end ---- */

static void finish_mean(struct plan_writer *writer) {
    struct workload *workload = writer->workload;
    double duration = (double)(writer->plan->end_ns - writer->plan->begin_ns);
    if (duration > 0) {
        workload->mean_live_bytes = writer->live_integral / duration;
        return;
    }
    double sum = 0; /* a trace without a clock: every sample counts alike */
    for (uint64_t i = 0; i < writer->plan->n_samples; i++)
        sum += (double)workload->sample_live[i];
    if (writer->plan->n_samples > 0)
        workload->mean_live_bytes = sum / (double)writer->plan->n_samples;
}

/* Cuts off what was not needed, and makes the rest read-only. */
static bool seal_and_map(struct plan_writer *writer) {
    struct workload *workload = writer->workload;
    struct plan *plan = writer->plan;
    uint64_t room = plan->file_bytes;
    uint64_t file_bytes = plan->partials_offset + plan->n_partials * sizeof(struct partial);
    plan->file_bytes = file_bytes;
    munmap(plan, room);
    writer->plan = NULL;
    if (ftruncate(workload->plan_fd, (off_t)file_bytes) != 0 ||
        fcntl(workload->plan_fd, F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return false;
    void *mapped = mmap(NULL, file_bytes, PROT_READ, MAP_PRIVATE, workload->plan_fd, 0);
    workload->plan = mapped == MAP_FAILED ? NULL : mapped;
    return workload->plan != NULL;
}

/* What a profile generates may last a little longer than it says. */
static uint64_t end_of(const struct plan_writer *writer, const struct trace_info *info) {
    uint64_t end_ns = writer->life.has_end ? writer->life.end_ns : info->duration_ns;
    return end_ns > writer->now_ns ? end_ns : writer->now_ns;
}

bool plan_writer_finish(struct plan_writer *writer, const struct trace_info *info) {
    struct plan *plan = writer->plan;
    struct workload *workload = writer->workload;
    plan->n_ops = writer->n_ops;
    plan->n_events = info->n_events;
    plan->n_slots = info->n_slots;
    plan->end_ns = end_of(writer, info);
    workload->final_live_bytes = writer->live_bytes;
    sample_before(writer, plan->end_ns);
    advance_time(writer, plan->end_ns);
    if (writer->life.has_end)
        note_sample(writer);
    finish_mean(writer);
    return seal_and_map(writer);
}

void plan_writer_close(struct plan_writer *writer) {
    if (writer->plan != NULL)
        munmap(writer->plan, writer->plan->file_bytes);
    free(writer->slots);
    *writer = (struct plan_writer){.plan = NULL};
}
