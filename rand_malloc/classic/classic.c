/* classic.c - see classic.h.
 *
 * The original's rand() is random_r of glibc on 128 bytes of state, which needs no global.
 */
#include "classic.h"

#include "memory.h"
#include "pending.h"

#include <stdlib.h>

struct classic {
    const struct classic_records *records;
    struct pending pending;   /* key: the tick a slot's block is due at */
    uint32_t *size_of_slot;   /* [records->n] */
    uint32_t *free_slots;     /* [n_free] */
    uint32_t n_free, n_slots; /* the latter ever used */
    uint32_t next_record;     /* == allocations so far */
    uint64_t tick;
    uint64_t freed_at_tick;
    uint64_t live_bytes;
    int has_ended;
    struct classic_figures figures;
    struct random_data random;
    char random_state[128];
};

/* ---- numbers ---- */

static int32_t draw(struct classic *classic) {
    int32_t number = 0;
    random_r(&classic->random, &number);
    return number;
}

/* About the mean: the average of five numbers that are uniform up to twice the mean; at
 * least 1 if the mean is. */
static uint32_t draw_about(struct classic *classic, double mean) {
    double sum = 0;
    for (int i = 0; i < 5; i++)
        sum += (double)draw(classic);
    double drawn = sum * mean / (RAND_MAX * 2.5);
    return mean >= 1 && drawn < 1 ? 1 : (uint32_t)(0.5 + drawn);
}

static uint32_t rounded(double value) {
    return (uint32_t)(0.5 + value);
}

/* ---- events ---- */

static void schedule(struct classic *classic, uint32_t slot, uint64_t due, int *status) {
    struct classic_figures *figures = &classic->figures;
    if (due > figures->last_due)
        figures->last_due = due;
    if (due >= CLASSIC_HORIZON)
        figures->last_beyond = due;
    else if (!pending_push(&classic->pending, due, slot))
        *status = TRACE_ERROR_MEMORY;
}

static int emit_allocation(struct classic *classic, struct trace_event *event) {
    const struct classic_record *record = &classic->records->records[classic->next_record++];
    struct classic_figures *figures = &classic->figures;
    uint32_t life = record->type == 1 ? rounded(record->life) : draw_about(classic, record->life);
    uint32_t size = record->type == 3 ? draw_about(classic, record->size) : rounded(record->size);
    uint32_t slot =
        classic->n_free > 0 ? classic->free_slots[--classic->n_free] : classic->n_slots++;
    int status = TRACE_OK;
    schedule(classic, slot, classic->tick + life, &status);
    classic->size_of_slot[slot] = size;
    classic->live_bytes += size;
    figures->allocated_bytes += size;
    figures->n_allocations++;
    if (classic->live_bytes > figures->peak_live_bytes)
        figures->peak_live_bytes = classic->live_bytes;
    *event = (struct trace_event){
        .op = TRACE_MALLOC, .api = TRACE_API_MALLOC, .size = size, .slot = slot};
    return status;
}

static void emit_free(struct classic *classic, struct trace_event *event) {
    struct classic_figures *figures = &classic->figures;
    uint32_t slot = pending_pop(&classic->pending);
    classic->free_slots[classic->n_free++] = slot;
    classic->live_bytes -= classic->size_of_slot[slot];
    figures->n_frees++;
    if (++classic->freed_at_tick > figures->max_due)
        figures->max_due = classic->freed_at_tick;
    *event = (struct trace_event){.op = TRACE_FREE, .api = TRACE_API_FREE, .slot = slot};
}

/* Ticks of the whole run. */
static uint64_t count_ticks(const struct classic *classic) {
    uint64_t n = classic->figures.last_due + 1;
    n = n > classic->records->n ? n : classic->records->n;
    return n < CLASSIC_HORIZON ? n : CLASSIC_HORIZON;
}

/* True when another tick follows; those at which nothing happens are passed over. */
static int advance(struct classic *classic) {
    uint64_t n_ticks = count_ticks(classic);
    uint64_t next = classic->tick + 1;
    if (classic->next_record == classic->records->n)
        next = classic->pending.n > 0 ? classic->pending.entries[0].key : n_ticks;
    classic->tick = next;
    classic->freed_at_tick = 0;
    return next < n_ticks;
}

static void end(struct classic *classic) {
    classic->has_ended = 1;
    classic->figures.n_steps = classic->tick + 1;
    classic->figures.final_live_bytes = classic->live_bytes;
    classic->figures.last_random = (uint64_t)draw(classic);
}

int classic_next(struct classic *classic, struct trace_event *event) {
    int status = TRACE_OK;
    while (!classic->has_ended) {
        uint64_t time_ns = classic->tick * CLASSIC_TICK_NS;
        int is_found = 1;
        if (classic->next_record == classic->tick && classic->next_record < classic->records->n)
            status = emit_allocation(classic, event);
        else if (classic->pending.n > 0 && classic->pending.entries[0].key <= classic->tick)
            emit_free(classic, event);
        else
            is_found = 0;
        if (is_found) {
            event->time_ns = time_ns - time_ns % TRACE_TIME_QUANTUM_NS;
            return status;
        }
        if (!advance(classic))
            end(classic);
    }
    return TRACE_END;
}

/* ---- the whole ---- */

struct classic *classic_open(const struct classic_records *records, uint32_t seed) {
    struct classic *classic = memory_map(sizeof *classic);
    if (classic == NULL)
        return NULL;
    classic->records = records;
    classic->size_of_slot = memory_map(records->n * sizeof(uint32_t));
    classic->free_slots = memory_map(records->n * sizeof(uint32_t));
    if (classic->size_of_slot == NULL || classic->free_slots == NULL ||
        initstate_r(seed, classic->random_state, sizeof classic->random_state, &classic->random)) {
        classic_close(classic);
        return NULL;
    }
    return classic;
}

void classic_get_figures(const struct classic *classic, struct classic_figures *figures) {
    *figures = classic->figures;
}

void classic_close(struct classic *classic) {
    if (classic == NULL)
        return;
    pending_release(&classic->pending);
    memory_unmap(classic->size_of_slot, classic->records->n * sizeof(uint32_t));
    memory_unmap(classic->free_slots, classic->records->n * sizeof(uint32_t));
    memory_unmap(classic, sizeof *classic);
}
