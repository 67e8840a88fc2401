/* ledger.c - see ledger.h. */
#include "ledger.h"

#include "memory.h"

#include <string.h> /* memset */

enum {
    INITIAL_SLOTS = 4096
};

int ledger_open(struct ledger *ledger) {
    memset(ledger, 0, sizeof *ledger);
    ledger->slots = memory_map(INITIAL_SLOTS * sizeof *ledger->slots);
    ledger->is_running = memory_map(TRACE_MAX_THREADS);
    if (ledger->slots == NULL || ledger->is_running == NULL) {
        ledger_close(ledger);
        return 0;
    }
    ledger->slot_capacity = INITIAL_SLOTS;
    ledger->is_running[0] = 1;
    ledger->n_threads = 1;
    return 1;
}

void ledger_close(struct ledger *ledger) {
    memory_unmap(ledger->slots, ledger->slot_capacity * sizeof *ledger->slots);
    memory_unmap(ledger->is_running, TRACE_MAX_THREADS);
    memset(ledger, 0, sizeof *ledger);
}

static int grow_slots(struct ledger *ledger) {
    size_t old_bytes = ledger->slot_capacity * sizeof *ledger->slots;
    struct ledger_slot *slots = memory_grow(ledger->slots, old_bytes, 2 * old_bytes);
    if (slots == NULL)
        return 0;
    ledger->slots = slots;
    ledger->slot_capacity *= 2;
    return 1;
}

static void count_live(struct ledger *ledger, uint64_t live_bytes, uint64_t live_blocks) {
    ledger->live_bytes = live_bytes;
    ledger->live_blocks = live_blocks;
    if (live_bytes > ledger->peak_live_bytes)
        ledger->peak_live_bytes = live_bytes;
    if (live_blocks > ledger->peak_live_blocks)
        ledger->peak_live_blocks = live_blocks;
}

/* Whether the slot, which was used before, may take a block of the thread. */
static const char *check_reuse(const struct ledger_slot *slot, uint32_t thread) {
    if (slot->is_live)
        return "an allocation names a slot that is live";
    if (slot->owner != thread)
        return "an allocation names a slot that another thread freed";
    return NULL;
}

static const char *add_slot(struct ledger *ledger, uint32_t slot) {
    if (slot > ledger->n_slots || slot >= TRACE_MAX_SLOTS)
        return "a new slot is not the next unused number";
    if (slot == ledger->slot_capacity && !grow_slots(ledger))
        return "no memory for the table of slots";
    ledger->n_slots++;
    return NULL;
}

static const char *apply_allocation(struct ledger *ledger, struct trace_event *event) {
    uint32_t thread = event->thread;
    uint64_t size = event->size;
    if (size > LEDGER_MAX_LIVE_BYTES - ledger->live_bytes)
        return "the live bytes are out of range";
    const char *why = event->slot < ledger->n_slots
                          ? check_reuse(&ledger->slots[event->slot], thread)
                          : add_slot(ledger, event->slot);
    if (why != NULL)
        return why;
    struct ledger_slot *slot = &ledger->slots[event->slot];
    slot->bytes = size;
    slot->owner = thread;
    slot->is_live = 1;
    event->owner = thread;
    count_live(ledger, ledger->live_bytes + size, ledger->live_blocks + 1);
    return NULL;
}

static const char *apply_realloc(struct ledger *ledger, struct trace_event *event) {
    if (event->slot >= ledger->n_slots || !ledger->slots[event->slot].is_live)
        return "a realloc names a slot that is not live";
    struct ledger_slot *slot = &ledger->slots[event->slot];
    uint64_t live_bytes = ledger->live_bytes - slot->bytes + event->size;
    if (live_bytes > LEDGER_MAX_LIVE_BYTES)
        return "the live bytes are out of range";
    event->owner = slot->owner;
    slot->owner = event->thread;
    slot->bytes = event->size;
    count_live(ledger, live_bytes, ledger->live_blocks);
    return NULL;
}

static const char *apply_free(struct ledger *ledger, struct trace_event *event) {
    if (event->slot >= ledger->n_slots || !ledger->slots[event->slot].is_live)
        return "a free names a slot that is not live";
    if (event->size != 0)
        return "a free carries a size";
    struct ledger_slot *slot = &ledger->slots[event->slot];
    event->owner = slot->owner;
    ledger->live_bytes -= slot->bytes; /* no peak can rise */
    ledger->live_blocks--;
    slot->bytes = 0;
    slot->owner = event->thread;
    slot->is_live = 0;
    return NULL;
}

static const char *apply_thread(struct ledger *ledger, struct trace_event *event) {
    int is_start = event->op == TRACE_THREAD_START;
    if (event->slot != 0 || event->size != 0)
        return "a thread event carries a slot or a size";
    if (event->thread == 0)
        return "thread 0 neither starts nor exits";
    if (ledger->is_running[event->thread] == is_start)
        return is_start ? "a thread starts that is running" : "a thread exits that is not running";
    if (event->thread == ledger->n_threads)
        ledger->n_threads++;
    ledger->is_running[event->thread] = (uint8_t)is_start;
    event->owner = event->thread;
    return NULL;
}

/* What most events have 0 in. */
static const char *check_rare_fields(const struct ledger *ledger, const struct trace_event *event) {
    if (event->align_log2 > (event->op == TRACE_ALIGNED ? TRACE_MAX_ALIGN_LOG2 : 0))
        return "an alignment is out of range";
    if (event->reserved != 0 || event->reserved2 != 0)
        return "a reserved field is not 0";
    if (event->touch != 0 && event->op > TRACE_REALLOC)
        return "a count of untouched pages belongs to no allocation";
    if (event->touch > 1 &&
        (ledger->page_bytes == 0 || event->touch - 1 > event->size / ledger->page_bytes))
        return "more pages are untouched than the block has";
    return NULL;
}

static int is_new_lane(const struct ledger *ledger, const struct trace_event *event) {
    return event->op == TRACE_THREAD_START && event->thread == ledger->n_threads &&
           event->thread < TRACE_MAX_THREADS;
}

/* What holds for an event of any kind. */
static const char *check_fields(const struct ledger *ledger, const struct trace_event *event) {
    if (event->op >= TRACE_OP_COUNT || event->api >= TRACE_API_COUNT)
        return "unknown operation or entry point";
    if (event->thread >= ledger->n_threads && !is_new_lane(ledger, event))
        return "a thread number is not in use";
    if (event->op < TRACE_THREAD_START && !ledger->is_running[event->thread])
        return "a thread acts before its start or after its exit";
    if (event->size > TRACE_MAX_SIZE)
        return "a size is out of range";
    if (event->time_ns < ledger->time_ns)
        return "time goes back";
    if ((event->align_log2 | event->touch | event->reserved | event->reserved2) == 0)
        return NULL;
    return check_rare_fields(ledger, event);
}

const char *ledger_apply(struct ledger *ledger, struct trace_event *event) {
    const char *why = check_fields(ledger, event);
    if (why != NULL)
        return why;
    if (event->op <= TRACE_ALIGNED)
        why = apply_allocation(ledger, event);
    else if (event->op == TRACE_REALLOC)
        why = apply_realloc(ledger, event);
    else if (event->op == TRACE_FREE)
        why = apply_free(ledger, event);
    else
        why = apply_thread(ledger, event);
    if (why != NULL)
        return why;
    ledger->n_events++;
    ledger->time_ns = event->time_ns;
    return NULL;
}
