/* builder.c - see builder.h. */
#include "builder/builder.h"

#include "base/symbols.h"
#include "memory.h"

#include <string.h>

enum {
    FIRST_SLOTS = 1 << 16
};
#define NO_SLOT   UINT32_MAX
#define NO_THREAD UINT32_MAX

/* Far above the disagreement of clocks, far below the reuse of a cached address. */
#define WINDOW_NS 100000.0

uint64_t builder_time_ns(const struct builder *builder, uint64_t stamp) {
    /* Signed: the conversion is one instruction then, and no time is above 2^63 ns. */
    return (uint64_t)(int64_t)(builder->lead_ns + (double)(int64_t)(stamp - builder->start_stamp) *
                                                      builder->ns_per_stamp);
}

/* ---- output ---- */

static void flush(struct builder *builder) {
    if (builder->status == TRACE_OK)
        builder->status = trace_write(builder->writer, builder->batch, builder->n_batch);
    builder->n_batch = 0;
}

static inline void emit(struct builder *builder, struct trace_event event) {
    if (builder->is_quiet) {
        if (!living_note(&builder->living, &event))
            builder->status = TRACE_ERROR_MEMORY;
        return;
    }
    if (builder->n_batch == BUILDER_BATCH)
        flush(builder);
    event.time_ns = builder_time_ns(builder, builder->now_stamp);
    builder->batch[builder->n_batch++] = event;
}

static void emit_thread(struct builder *builder, enum trace_op op, uint32_t thread) {
    builder->threads[thread].is_running = op == TRACE_THREAD_START;
    emit(builder,
         (struct trace_event){.op = (uint8_t)op, .api = TRACE_API_THREAD, .thread = thread});
}

/* ---- slots ---- */

static bool grow_slots(struct builder *builder) {
    size_t old_bytes = builder->slot_capacity * sizeof *builder->next_free;
    uint32_t *next_free = memory_grow(builder->next_free, old_bytes, 2 * old_bytes);
    if (next_free == NULL)
        return false;
    builder->next_free = next_free;
    builder->slot_capacity *= 2;
    return true;
}

static uint32_t take_slot(struct builder *builder, uint32_t thread) {
    uint32_t slot = builder->threads[thread].free_slot;
    if (slot != NO_SLOT) {
        builder->threads[thread].free_slot = builder->next_free[slot];
        return slot;
    }
    if (builder->n_slots == builder->slot_capacity && !grow_slots(builder))
        builder->status = TRACE_ERROR_MEMORY;
    return builder->n_slots++;
}

static void give_slot(struct builder *builder, uint32_t thread, uint32_t slot) {
    builder->next_free[slot] = builder->threads[thread].free_slot;
    builder->threads[thread].free_slot = slot;
}

static void emit_free(struct builder *builder, uint32_t thread, uint8_t code, uint32_t slot) {
    emit(builder,
         (struct trace_event){.op = TRACE_FREE, .api = code >> 3, .thread = thread, .slot = slot});
    give_slot(builder, thread, slot);
}

/* ---- repairs ---- */

static void put_odd(struct builder_odd *ring, unsigned *n_put, struct builder_odd odd) {
    ring[(*n_put)++ % BUILDER_RING] = odd;
}

/* Takes the entry of this address out of the ring, if there is a fresh one. */
static bool take_odd(const struct builder *builder, struct builder_odd *ring, uint64_t address,
                     struct builder_odd *odd) {
    for (unsigned i = 0; i < BUILDER_RING; i++) {
        if (ring[i].address == address &&
            builder->now_stamp - ring[i].stamp <= builder->window_stamps) {
            *odd = ring[i];
            ring[i].address = 0;
            return true;
        }
    }
    return false;
}

/* A block still lives at an address that is handed out: its free is late. */
static void end_previous_block(struct builder *builder, uint64_t address, uint32_t thread) {
    uint32_t slot;
    if (!address_map_remove(&builder->map, address, &slot))
        return;
    emit_free(builder, thread, TRACE_API_FREE << 3, slot);
    put_odd(builder->owed_frees, &builder->n_owed,
            (struct builder_odd){.address = address, .stamp = builder->now_stamp});
    builder->counts.repaired_events++;
}

static void place_block(struct builder *builder, uint64_t address, uint32_t slot) {
    if (!address_map_add(&builder->map, address, slot))
        builder->status = TRACE_ERROR_MEMORY;
}

/* Another thread's free of the new block may have come before it. */
static void end_early(struct builder *builder, uint64_t address, uint32_t thread) {
    struct builder_odd odd;
    uint32_t slot;
    if (builder->n_early == 0 || !take_odd(builder, builder->early_frees, address, &odd))
        return;
    /* Within a thread the order is certain, and a thread that has exited cannot wait: foreign. */
    if (odd.thread == thread || !builder->threads[odd.thread].is_running)
        return;
    address_map_remove(&builder->map, address, &slot);
    emit_free(builder, odd.thread, odd.code, slot);
    builder->counts.foreign_frees--;
    builder->counts.repaired_events++;
}

/* ---- events ---- */

/* The block of the event is from now on in the slot. */
static void emit_block(struct builder *builder, const struct spool_event *event, uint32_t thread,
                       enum trace_op op, uint32_t slot) {
    emit(builder, (struct trace_event){.op = (uint8_t)op,
                                       .api = event->code >> 3,
                                       .align_log2 = op == TRACE_ALIGNED ? event->align_log2 : 0,
                                       .thread = thread,
                                       .slot = slot,
                                       .size = event->size,
                                       .touch = event->touch});
    place_block(builder, event->address, slot);
    end_early(builder, event->address, thread);
}

static void add_allocation(struct builder *builder, const struct spool_event *event,
                           uint32_t thread, enum trace_op op) {
    end_previous_block(builder, event->address, thread);
    emit_block(builder, event, thread, op, take_slot(builder, thread));
}

static void add_free(struct builder *builder, const struct spool_event *event, uint32_t thread) {
    struct builder_odd odd;
    uint32_t slot;
    if (builder->n_owed > 0 && take_odd(builder, builder->owed_frees, event->address, &odd))
        return;
    if (address_map_remove(&builder->map, event->address, &slot)) {
        emit_free(builder, thread, event->code, slot);
        return;
    }
    builder->counts.foreign_frees++; /* until its allocation comes, if ever */
    put_odd(builder->early_frees, &builder->n_early,
            (struct builder_odd){event->address, event->stamp, thread, event->code});
}

static void begin_realloc(struct builder *builder, const struct spool_event *event,
                          uint32_t thread) {
    struct builder_thread *state = &builder->threads[thread];
    state->pending_address = event->address;
    if (!address_map_remove(&builder->map, event->address, &state->pending_slot))
        state->pending_slot = NO_SLOT;
}

/* A realloc that failed, or that the recording saw only the beginning of. */
static void undo_realloc(struct builder *builder, uint32_t thread) {
    struct builder_thread *state = &builder->threads[thread];
    uint32_t slot;
    if (state->pending_slot != NO_SLOT &&
        !address_map_find(&builder->map, state->pending_address, &slot))
        place_block(builder, state->pending_address, state->pending_slot);
    state->pending_slot = NO_SLOT;
}

static void end_realloc(struct builder *builder, const struct spool_event *event, uint32_t thread) {
    uint32_t slot = builder->threads[thread].pending_slot;
    if (event->address == 0) {
        undo_realloc(builder, thread);
        return;
    }
    if (slot == NO_SLOT) {
        builder->counts.foreign_frees++;
        add_allocation(builder, event, thread, TRACE_MALLOC);
        return;
    }
    builder->threads[thread].pending_slot = NO_SLOT;
    end_previous_block(builder, event->address, thread);
    emit_block(builder, event, thread, TRACE_REALLOC, slot);
}

/* realloc(block, 0) that freed. */
static void end_realloc_by_free(struct builder *builder, const struct spool_event *event,
                                uint32_t thread) {
    uint32_t slot = builder->threads[thread].pending_slot;
    builder->threads[thread].pending_slot = NO_SLOT;
    if (slot == NO_SLOT)
        builder->counts.foreign_frees++;
    else
        emit_free(builder, thread, event->code, slot);
}

/* ---- threads ---- */

static uint32_t new_thread(struct builder *builder) {
    if (builder->n_threads == TRACE_MAX_THREADS) {
        builder->status = TRACE_ERROR_FORMAT;
        return 0;
    }
    builder->threads[builder->n_threads].free_slot = NO_SLOT;
    builder->threads[builder->n_threads].pending_slot = NO_SLOT;
    return builder->n_threads++;
}

/* The thread of a lane, started if this event is its first. */
static uint32_t thread_of(struct builder *builder, const struct spool_event *event) {
    uint32_t *thread = &builder->lane_threads[event->lane];
    if (*thread == NO_THREAD)
        *thread = new_thread(builder);
    unsigned op = event->code & 7;
    if (!builder->threads[*thread].is_running && op != TRACE_THREAD_EXIT)
        emit_thread(builder, TRACE_THREAD_START, *thread);
    return *thread;
}

static void end_thread(struct builder *builder, uint32_t thread) {
    undo_realloc(builder, thread);
    if (thread != 0 && builder->threads[thread].is_running)
        emit_thread(builder, TRACE_THREAD_EXIT, thread);
}

/* ---- a trace that begins later than its recording ---- */

void builder_be_quiet(struct builder *builder) {
    builder->is_quiet = true;
    builder->begin_stamp = UINT64_MAX;
}

void builder_begin_at(struct builder *builder, uint64_t stamp) {
    builder->begin_stamp = stamp;
}

/* Numbers the threads that run anew, the first of the spool as 0: that one runs from the start.
 * Fills old number -> new one, 0 of those that have ended; false: no memory. */
static bool number_threads(struct builder *builder, uint32_t *numbers) {
    size_t n_bytes = TRACE_MAX_THREADS * sizeof *builder->threads;
    struct builder_thread *before = memory_map(n_bytes);
    if (before == NULL)
        return false;
    memcpy(before, builder->threads, builder->n_threads * sizeof *before);
    memset(builder->threads, 0, builder->n_threads * sizeof *before);
    uint32_t n_threads = 1;
    builder->threads[0] = before[builder->first_thread];
    builder->threads[0].is_running = true;
    for (uint32_t old = 0; old < builder->n_threads; old++) {
        if (old == builder->first_thread || !before[old].is_running)
            continue;
        numbers[old] = n_threads;
        builder->threads[n_threads++] = before[old];
    }
    for (size_t i = 0; i < builder->n_lanes; i++) {
        uint32_t *thread = &builder->lane_threads[i];
        if (*thread != NO_THREAD && *thread != builder->first_thread)
            *thread = before[*thread].is_running ? numbers[*thread] : NO_THREAD;
        else if (*thread != NO_THREAD)
            *thread = 0;
    }
    builder->n_threads = n_threads;
    memory_unmap(before, n_bytes);
    return true;
}

/* Lists where slots in use are kept, which is in the map and in reallocs that are under way. */
static size_t list_living(struct builder *builder, struct living_place *places) {
    size_t n = 0;
    for (size_t i = 0; i < builder->map.capacity; i++)
        if (builder->map.entries[i].address != 0)
            places[n++].slot = &builder->map.entries[i].slot;
    for (uint32_t thread = 0; thread < builder->n_threads; thread++) {
        builder->threads[thread].free_slot = NO_SLOT;
        if (builder->threads[thread].pending_slot != NO_SLOT)
            places[n++].slot = &builder->threads[thread].pending_slot;
    }
    living_sort(&builder->living, places, n);
    return n;
}

/* Writes the threads and the blocks that live, and numbers their slots anew. */
static void emit_living(struct builder *builder, const uint32_t *numbers,
                        const struct living_place *places, size_t n_places) {
    for (uint32_t thread = 1; thread < builder->n_threads; thread++)
        emit_thread(builder, TRACE_THREAD_START, thread);
    for (size_t i = 0; i < n_places; i++) {
        struct trace_event event = builder->living.blocks[*places[i].slot].event;
        event.thread = numbers[event.thread];
        event.slot = (uint32_t)i;
        *places[i].slot = event.slot;
        emit(builder, event);
    }
    builder->n_slots = (uint32_t)n_places;
    builder->counts.inherited_blocks = n_places;
}

static RECORDER_COLD void begin_trace(struct builder *builder) {
    size_t numbers_bytes = TRACE_MAX_THREADS * sizeof(uint32_t);
    size_t places_bytes = (builder->map.n_used + TRACE_MAX_THREADS) * sizeof(struct living_place);
    uint32_t *numbers = memory_map(numbers_bytes);
    struct living_place *places = memory_map(places_bytes);
    builder->is_quiet = false;
    builder->start_stamp = builder->begin_stamp;
    builder->now_stamp = builder->begin_stamp;
    builder->lead_ns = 0.0;
    builder->counts = (struct builder_counts){0};
    memset(builder->early_frees, 0, sizeof builder->early_frees); /* of threads of before */
    if (numbers == NULL || places == NULL || !number_threads(builder, numbers))
        builder->status = TRACE_ERROR_MEMORY;
    else
        emit_living(builder, numbers, places, list_living(builder, places));
    memory_unmap(numbers, numbers_bytes);
    memory_unmap(places, places_bytes);
    living_close(&builder->living);
}

/* ---- events of spools ---- */

static void add_event(struct builder *builder, const struct spool_event *event) {
    if (builder->is_quiet && event->stamp >= builder->begin_stamp)
        begin_trace(builder);
    builder->now_stamp = event->stamp > builder->now_stamp ? event->stamp : builder->now_stamp;
    uint32_t thread = thread_of(builder, event);
    unsigned op = event->code & 7;
    if (event->code == RECORD_REALLOC_BEGIN)
        begin_realloc(builder, event, thread);
    else if (op == TRACE_REALLOC)
        end_realloc(builder, event, thread);
    else if (op == TRACE_FREE && event->address == 0)
        end_realloc_by_free(builder, event, thread);
    else if (op == TRACE_FREE)
        add_free(builder, event, thread);
    else if (op == TRACE_THREAD_EXIT)
        end_thread(builder, thread);
    else if (op <= TRACE_ALIGNED)
        add_allocation(builder, event, thread, (enum trace_op)op);
}

static void add_events(struct builder *builder, const struct spool_event *events, size_t n) {
    for (size_t i = 0; i < n; i++)
        address_map_prefetch(&builder->map, events[i].address);
    for (size_t i = 0; i < n && builder->status == TRACE_OK; i++)
        add_event(builder, &events[i]);
}

/* ---- the whole ---- */

bool builder_open(struct builder *builder, struct trace_writer *writer, const struct spool *first) {
    memset(builder, 0, sizeof *builder);
    builder->writer = writer;
    builder->start_stamp = first->header->start_stamp;
    builder->now_stamp = builder->start_stamp;
    builder->ns_per_stamp = spool_ns_per_stamp(first);
    if (first->header->life_ns != 0)
        builder->lead_ns = (double)(first->header->start_clock_ns - first->header->life_ns);
    builder->window_stamps = (uint64_t)(WINDOW_NS / builder->ns_per_stamp);
    builder->slot_capacity = FIRST_SLOTS;
    builder->next_free = memory_map(FIRST_SLOTS * sizeof *builder->next_free);
    builder->threads = memory_map(TRACE_MAX_THREADS * sizeof *builder->threads);
    if (builder->next_free == NULL || builder->threads == NULL || !address_map_open(&builder->map))
        return false;
    builder->threads[new_thread(builder)].is_running = true;
    return true;
}

int builder_add(struct builder *builder, struct spool *spool, uint32_t first_thread) {
    memory_unmap(builder->lane_threads, builder->n_lanes * sizeof *builder->lane_threads);
    builder->first_thread = first_thread;
    builder->n_lanes = spool->n_lanes + 1;
    builder->lane_threads = memory_map(builder->n_lanes * sizeof *builder->lane_threads);
    if (builder->lane_threads == NULL)
        return builder->status = TRACE_ERROR_MEMORY;
    for (size_t i = 0; i < spool->n_lanes; i++)
        builder->lane_threads[i] = spool->lanes[i].home == 1 ? first_thread : NO_THREAD;
    size_t n;
    while (builder->status == TRACE_OK &&
           (n = spool_read(spool, builder->ahead, BUILDER_AHEAD)) > 0)
        add_events(builder, builder->ahead, n);
    return builder->status;
}

uint32_t builder_fork(struct builder *builder, const struct spool *parent, uint32_t fork_lane) {
    uint32_t survivor = NO_THREAD;
    for (size_t i = 0; i < parent->n_lanes; i++)
        if (parent->lanes[i].home == fork_lane)
            survivor = builder->lane_threads[i];
    for (uint32_t thread = 0; thread < builder->n_threads; thread++)
        if (thread != survivor)
            end_thread(builder, thread);
    if (survivor != 0) /* ended too: the child's trace does not begin with it */
        builder->threads[0].is_running = false;
    return survivor != NO_THREAD ? survivor : new_thread(builder);
}

const char *builder_message(int status) {
    _Static_assert(TRACE_MAX_THREADS == 65536, "the message has it");
    return status == TRACE_ERROR_FORMAT ? "more than 65536 threads at once, the most of a trace"
                                        : "cannot write the trace or no memory";
}

int builder_finish(struct builder *builder) {
    flush(builder);
    return builder->status;
}

void builder_close(struct builder *builder) {
    address_map_close(&builder->map);
    living_close(&builder->living);
    memory_unmap(builder->next_free, builder->slot_capacity * sizeof *builder->next_free);
    memory_unmap(builder->threads, TRACE_MAX_THREADS * sizeof *builder->threads);
    memory_unmap(builder->lane_threads, builder->n_lanes * sizeof *builder->lane_threads);
}
