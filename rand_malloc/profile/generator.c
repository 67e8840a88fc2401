/* generator.c - see generator.h. */
#include "generator.h"

#include "ledger.h" /* LEDGER_MAX_LIVE_BYTES */
#include "memory.h"
#include "random.h"
#include "wheel.h"

enum {
    INITIAL_SLOTS = 4096,
    INITIAL_FREE_SLOTS = 1024,
    PREFETCHED_LIVES = 8, /* so many later than the one that begins */
    PREFETCHED_SLOTS = 4,
    RANK_BITS = 16,
    WINDOW_BITS = 16
};
_Static_assert(WHEEL_TICK_BITS + RANK_BITS + WINDOW_BITS == 64, "a key holds all three");
_Static_assert(TRACE_MAX_THREADS <= 1 << 16, "owners of slots fit");

#define STEP_MAX ((UINT32_C(1) << SLOT_STEP_BITS) - 1)
#define RANK_MAX ((UINT64_C(1) << RANK_BITS) - 1)

/* Slots that a thread freed and may allocate into; the last first. */
struct free_slots {
    uint32_t *slots;
    size_t n;
    size_t capacity;
};

struct generator {
    const struct profile *profile;
    uint64_t random;
    struct wheel wheel;
    struct slot *slots;
    size_t slot_capacity;
    uint8_t *is_running;           /* [n_threads] */
    struct free_slots *free_slots; /* [n_threads] */
    uint32_t *dealt;               /* lives of this window in random order */
    uint32_t n_dealt, next_dealt;
    size_t dealt_capacity;
    uint32_t next_fixed;        /* of this window */
    uint32_t next_thread_event; /* of this window */
    uint32_t window;            /* n_windows: only what is left to free */
    uint32_t window_events;     /* emitted in this window */
    uint32_t same_time_until;   /* window_events before it have the time of the last event */
    uint64_t tick;
    struct generator_totals totals;
    int status; /* TRACE_OK, or how it ended */
};

/* ---- time ---- */

/* The time of events of the window reaches next_ns no earlier than with this one. */
static uint32_t first_event_at(const struct profile_window *window, uint64_t span_ns,
                               uint64_t next_ns) {
    double share = (double)(next_ns - window->time_ns) / (double)(span_ns + (span_ns == 0));
    double event = share * window->n_events - 1; /* 1 is far more than what was rounded */
    return event < window->n_events ? (uint32_t)(event > 0 ? event : 0) : window->n_events;
}

/* Spreads the events of a window evenly over its time, in the quanta of trace files. */
static void tell_time(struct generator *generator) {
    const struct profile *profile = generator->profile;
    const struct profile_window *window = &profile->windows[generator->window];
    uint64_t end_ns =
        generator->window + 1 < profile->n_windows ? window[1].time_ns : profile->duration_ns;
    int is_behind =
        generator->window == profile->n_windows || generator->window_events >= window->n_events;
    uint64_t time_ns = end_ns;
    if (!is_behind)
        time_ns = window->time_ns + (uint64_t)((double)(end_ns - window->time_ns) *
                                               generator->window_events / window->n_events);
    time_ns -= time_ns % TRACE_TIME_QUANTUM_NS;
    if (time_ns > generator->totals.time_ns)
        generator->totals.time_ns = time_ns;
    generator->same_time_until =
        is_behind ? UINT32_MAX
                  : first_event_at(window, end_ns - window->time_ns,
                                   generator->totals.time_ns + TRACE_TIME_QUANTUM_NS);
}

/* ---- due moments ---- */

/* Ordered by tick, then window, then rank.  Ticks stay below 2^32: a later one would lie
 * behind the end. */
static uint64_t due_key(uint64_t tick, uint32_t window, uint64_t rank) {
    if (tick > UINT32_MAX)
        tick = UINT32_MAX;
    return tick << (WINDOW_BITS + RANK_BITS) | (uint64_t)window << RANK_BITS | rank;
}

static uint64_t key_tick(uint64_t key) {
    return key >> (WINDOW_BITS + RANK_BITS);
}

static uint32_t key_window(uint64_t key) {
    return (uint32_t)(key >> RANK_BITS) & ((1u << WINDOW_BITS) - 1);
}

/* The last window that begins at or before the tick. */
static uint32_t window_of(const struct profile *profile, uint64_t tick) {
    uint32_t low = 0;
    uint32_t high = profile->n_windows;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (profile->windows[middle].tick <= tick)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Rank of a life among those that end together, youngest or oldest first. */
static uint64_t draw_rank(struct generator *generator, uint64_t age, uint32_t lifo_permille) {
    uint64_t is_fifo = random_below(&generator->random, 1000) >= lifo_permille;
    return (age & (RANK_MAX / 2)) ^ (RANK_MAX & (0 - is_fifo));
}

/* Rank of a fixed life's step: the one it has, else youngest first. */
static uint64_t fixed_rank(uint64_t age, int32_t rank) {
    if (rank > 0)
        return (uint64_t)rank < RANK_MAX ? (uint64_t)rank : RANK_MAX;
    return age < RANK_MAX / 2 ? age : RANK_MAX / 2;
}

/* Elapsed allocations: exact for fixed lives, else drawn from the bin. */
static uint64_t due_after(struct generator *generator, const struct slot *slot, int32_t code,
                          int32_t rank) {
    const struct profile *profile = generator->profile;
    uint64_t elapsed = (uint64_t)code;
    uint64_t width;
    if (slot->codes == CODES_COARSE) {
        elapsed = profile_bin(profile, (uint32_t)-code, &width);
        elapsed += random_choice(&generator->random, width);
    }
    uint64_t due = generator->tick + elapsed;
    uint64_t age = due - slot->birth_tick;
    if (slot->codes != CODES_COARSE && profile->version > 1)
        return due_key(due, 0, fixed_rank(age, rank));
    uint32_t lifo_permille = profile->windows[generator->window].lifo_permille;
    return due_key(due, 0, draw_rank(generator, age, lifo_permille));
}

/* Position in 2^-20 of a window: where the rank among the part's events puts it, else anywhere
 * in the part. */
static uint64_t position_in(struct generator *generator, const struct profile_window *window,
                            uint64_t part, int32_t rank) {
    uint64_t parts = generator->profile->parts;
    uint64_t in_part;
    if (rank > 0) {
        uint64_t n_events = window->n_events / parts + 1;
        uint64_t before = (uint64_t)rank - 1 < n_events ? (uint64_t)rank - 1 : n_events - 1;
        in_part = (before << 20) / n_events;
    } else {
        in_part = random_below(&generator->random, 1 << 20);
    }
    return ((part << 20) + in_part) / parts;
}

/* A part of a window that is counted from the birth. */
static uint64_t due_within(struct generator *generator, const struct slot *slot, int32_t code,
                           int32_t rank) {
    const struct profile *profile = generator->profile;
    uint64_t parts = profile->parts;
    uint64_t at = slot->birth_window + (uint64_t)(code - 1) / parts;
    uint64_t part = (uint64_t)(code - 1) % parts;
    if (at >= profile->n_windows)
        return due_key(UINT32_MAX, PROFILE_MAX_WINDOWS, 0);
    const struct profile_window *window = &profile->windows[at];
    uint64_t ticks = window[1].tick - window->tick;
    if (rank > 0 && ticks > 0) /* before the first allocation */
        return due_key(window->tick, (uint32_t)at, fixed_rank(0, rank));
    uint64_t position = position_in(generator, window, part, rank);
    if (ticks == 0) /* its highest bits are the order */
        return due_key(window->tick, (uint32_t)at, position >> (20 - RANK_BITS));
    uint64_t moment = ticks * position;
    return due_key(window->tick + (moment >> 20), (uint32_t)at,
                   (moment & ((1 << 20) - 1)) >> (20 - RANK_BITS));
}

/* Moves a step into the life of its thread. */
static uint64_t keep_alive(const struct generator *generator, uint64_t key, uint32_t thread) {
    const struct profile *profile = generator->profile;
    if (thread == 0)
        return key;
    uint32_t at = key_window(key) > 0 ? key_window(key) : window_of(profile, key_tick(key));
    const struct profile_span *span = profile_span_at(profile, thread, at);
    if (span != NULL && at < span->end) {
        /* Behind the first allocation of the window in which it starts, the tick is enough. */
        int is_later = profile->version > 1 && key_tick(key) > profile->windows[span->begin].tick;
        return is_later || key_window(key) >= span->begin
                   ? key
                   : due_key(key_tick(key), span->begin, key & RANK_MAX);
    }
    if (span != NULL && span->end > generator->window)
        return due_key(profile->windows[span->end].tick, span->end - 1, RANK_MAX);
    const struct profile_span *last = &profile->spans[profile->first_span[thread + 1]];
    span = span == NULL ? &profile->spans[profile->first_span[thread]] : span + 1;
    for (; span < last; span++)
        if (span->begin < span->end)
            return due_key(profile->windows[span->begin].tick, span->begin, 0);
    return key; /* thread 0 will do it */
}

/* Lets the life in the slot wait for its next step, if there is one. */
static int schedule_step(struct generator *generator, uint32_t number) {
    const struct profile *profile = generator->profile;
    struct slot *slot = &generator->slots[number];
    if (slot->next_step == slot->end_step)
        return 1;
    int32_t code = profile->codes[slot->next_code++];
    int32_t rank = slot->codes == CODES_RANKED ? profile->codes[slot->next_code++] : 0;
    int32_t part = slot->codes != CODES_COARSE ? -code : code;
    uint64_t due =
        part > 0 ? due_within(generator, slot, part, rank) : due_after(generator, slot, code, rank);
    if (profile->n_threads > 1)
        due = keep_alive(generator, due, profile->steps[slot->next_step].thread);
    slot->due = due;
    return wheel_push(&generator->wheel, generator->slots, number);
}

/* ---- events ---- */

/* The live heap changes; false if it is more than a trace can hold. */
static int count_live(struct generator *generator, uint64_t added_bytes, uint64_t removed_bytes) {
    struct generator_totals *totals = &generator->totals;
    totals->live_bytes += added_bytes - removed_bytes;
    if (totals->live_bytes > totals->peak_live_bytes)
        totals->peak_live_bytes = totals->live_bytes;
    return totals->live_bytes <= LEDGER_MAX_LIVE_BYTES;
}

static int grow_slots(struct generator *generator) {
    size_t capacity = generator->slot_capacity > 0 ? 2 * generator->slot_capacity : INITIAL_SLOTS;
    struct slot *slots = memory_grow(generator->slots, generator->slot_capacity * sizeof *slots,
                                     capacity * sizeof *slots);
    if (slots == NULL)
        return 0;
    generator->slots = slots;
    generator->slot_capacity = capacity;
    return 1;
}

/* A slot the thread may allocate into, or NO_SLOT when memory is short. */
static uint32_t take_slot(struct generator *generator, uint32_t thread) {
    struct free_slots *free_slots = &generator->free_slots[thread];
    if (free_slots->n > 0) {
        if (free_slots->n > PREFETCHED_SLOTS)
            __builtin_prefetch(
                &generator->slots[free_slots->slots[free_slots->n - 1 - PREFETCHED_SLOTS]], 1);
        return free_slots->slots[--free_slots->n];
    }
    if (generator->totals.n_slots >= TRACE_MAX_SLOTS ||
        (generator->totals.n_slots == generator->slot_capacity && !grow_slots(generator)))
        return NO_SLOT;
    return generator->totals.n_slots++;
}

static int give_slot(struct generator *generator, uint32_t thread, uint32_t slot) {
    struct free_slots *free_slots = &generator->free_slots[thread];
    if (free_slots->n == free_slots->capacity) {
        size_t old = free_slots->capacity;
        size_t capacity = old > 0 ? 2 * old : INITIAL_FREE_SLOTS;
        uint32_t *slots =
            memory_grow(free_slots->slots, old * sizeof *slots, capacity * sizeof *slots);
        if (slots == NULL)
            return 0;
        free_slots->slots = slots;
        free_slots->capacity = capacity;
    }
    free_slots->slots[free_slots->n++] = slot;
    return 1;
}

/* A life of the kind begins in its slot.  The fields are written one by one: a copy would read wide
 * what was just written narrow. */
static void begin_life(const struct generator *generator, struct slot *slot,
                       const struct profile_kind *kind, uint32_t first_code,
                       enum slot_codes codes) {
    slot->birth_tick = (uint32_t)generator->tick;
    slot->birth_window = (uint16_t)generator->window;
    slot->next_step = kind->first_step;
    slot->end_step = (kind->first_step + kind->n_steps) & STEP_MAX;
    slot->codes = codes & 3;
    slot->next_code = first_code;
    slot->owner = (uint16_t)kind->thread;
}

/* Emits the allocation of a life of the kind. */
static int emit_birth(struct generator *generator, uint32_t kind_number, uint32_t first_code,
                      enum slot_codes codes, struct trace_event *event) {
    static const uint8_t APIS[] = {TRACE_API_MALLOC, TRACE_API_CALLOC, TRACE_API_POSIX_MEMALIGN};
    const struct profile_kind *kind = &generator->profile->kinds[kind_number];
    uint32_t slot = take_slot(generator, kind->thread);
    if (slot == NO_SLOT)
        return TRACE_ERROR_MEMORY;
    *event = (struct trace_event){.op = kind->op,
                                  .api = APIS[kind->op],
                                  .size = kind->size,
                                  .align_log2 = kind->align_log2,
                                  .touch = kind->touch,
                                  .thread = kind->thread,
                                  .owner = kind->thread,
                                  .slot = slot};
    generator->tick++;
    begin_life(generator, &generator->slots[slot], kind, first_code, codes);
    struct generator_totals *totals = &generator->totals;
    if (++totals->live_blocks > totals->peak_live_blocks)
        totals->peak_live_blocks = totals->live_blocks;
    if (!count_live(generator, kind->size, 0))
        return TRACE_ERROR_FORMAT;
    return wheel_advance(&generator->wheel, generator->slots) && schedule_step(generator, slot)
               ? TRACE_OK
               : TRACE_ERROR_MEMORY;
}

/* Brings near what the lives that are dealt next consist of: their order is random. */
static void prefetch_lives(const struct generator *generator) {
    const struct profile *profile = generator->profile;
    uint32_t next = generator->next_dealt;
    if (next + PREFETCHED_LIVES >= generator->n_dealt)
        return;
    __builtin_prefetch(&profile->lives[generator->dealt[next + PREFETCHED_LIVES]]);
    const struct profile_life *life =
        &profile->lives[generator->dealt[next + PREFETCHED_LIVES / 2]];
    __builtin_prefetch(&profile->kinds[life->kind]);
    __builtin_prefetch(&profile->codes[life->first_code]);
}

/* The place of the window is a fixed life's, or the next one's that was dealt. */
static int emit_allocation(struct generator *generator, struct trace_event *event) {
    const struct profile *profile = generator->profile;
    const struct profile_window *window = &profile->windows[generator->window];
    const struct profile_fixed *fixed =
        &profile->fixed[window->first_fixed + generator->next_fixed];
    if (generator->next_fixed < window->n_fixed &&
        fixed->offset == generator->tick - window->tick) {
        generator->next_fixed++;
        return emit_birth(generator, fixed->kind, fixed->first_code,
                          fixed->has_ranks ? CODES_RANKED : CODES_EXACT, event);
    }
    const struct profile_life *life = &profile->lives[generator->dealt[generator->next_dealt++]];
    prefetch_lives(generator);
    return emit_birth(generator, life->kind, life->first_code, CODES_COARSE, event);
}

static int emit_step(struct generator *generator, struct trace_event *event) {
    uint32_t number = wheel_pop(&generator->wheel, generator->slots);
    struct slot *slot = &generator->slots[number];
    const struct profile_step *step = &generator->profile->steps[slot->next_step++];
    uint32_t thread = generator->is_running[step->thread] ? step->thread : 0;
    *event = (struct trace_event){.op = step->is_free ? TRACE_FREE : TRACE_REALLOC,
                                  .api = step->is_free ? TRACE_API_FREE : TRACE_API_REALLOC,
                                  .size = step->size,
                                  .touch = step->touch,
                                  .thread = thread,
                                  .owner = slot->owner,
                                  .slot = number};
    if (!count_live(generator, step->size, step->old_size))
        return TRACE_ERROR_FORMAT;
    if (!step->is_free) {
        slot->owner = (uint16_t)thread;
        return schedule_step(generator, number) ? TRACE_OK : TRACE_ERROR_MEMORY;
    }
    generator->totals.live_blocks--;
    return give_slot(generator, thread, number) ? TRACE_OK : TRACE_ERROR_MEMORY;
}

static int emit_thread_event(struct generator *generator, struct trace_event *event) {
    const struct profile *profile = generator->profile;
    const struct profile_thread_event *thread_event =
        &profile->thread_events[profile->windows[generator->window].first_thread_event +
                                generator->next_thread_event++];
    generator->is_running[thread_event->thread] = thread_event->op == TRACE_THREAD_START;
    *event = (struct trace_event){.op = thread_event->op,
                                  .api = TRACE_API_THREAD,
                                  .thread = thread_event->thread,
                                  .owner = thread_event->thread};
    return TRACE_OK;
}

/* ---- windows ---- */

static int grow_dealt(struct generator *generator, size_t n) {
    if (n <= generator->dealt_capacity)
        return 1;
    memory_unmap(generator->dealt, generator->dealt_capacity * sizeof *generator->dealt);
    generator->dealt = memory_map(n * sizeof *generator->dealt);
    generator->dealt_capacity = generator->dealt != NULL ? n : 0;
    return generator->dealt != NULL;
}

/* Shuffles the lives of the window (Fisher and Yates, as Durstenfeld wrote it). */
static int enter_window(struct generator *generator) {
    const struct profile_window *window = &generator->profile->windows[generator->window];
    generator->next_fixed = generator->next_thread_event = 0;
    generator->window_events = generator->next_dealt = generator->n_dealt = 0;
    generator->same_time_until = 0;
    if (window->n_allocations == 0)
        return 1;
    if (!grow_dealt(generator, window->n_allocations))
        return 0;
    for (uint32_t i = 0; i < window->n_lives; i++)
        for (uint32_t k = 0; k < generator->profile->lives[window->first_life + i].count; k++)
            generator->dealt[generator->n_dealt++] = window->first_life + i;
    for (uint32_t i = generator->n_dealt; i > 1; i--) {
        uint64_t other = random_below(&generator->random, i);
        uint32_t held = generator->dealt[i - 1];
        generator->dealt[i - 1] = generator->dealt[other];
        generator->dealt[other] = held;
    }
    return 1;
}

static int is_step_due(const struct generator *generator) {
    uint64_t key = wheel_first_key(&generator->wheel);
    return key != NO_KEY && (key_window(key) <= generator->window ||
                             generator->window == generator->profile->n_windows);
}

/* Begins the next window; behind the last, what is left becomes due. */
static int next_window(struct generator *generator) {
    generator->window++;
    if (!enter_window(generator))
        return 0;
    return generator->window < generator->profile->n_windows || wheel_end(&generator->wheel);
}

static int emit(struct generator *generator, struct trace_event *event) {
    for (;;) {
        const struct profile *profile = generator->profile;
        const struct profile_window *window = &profile->windows[generator->window];
        if (generator->next_thread_event < window->n_thread_events)
            return emit_thread_event(generator, event);
        if (is_step_due(generator))
            return emit_step(generator, event);
        if (generator->tick - window->tick < window->n_allocations)
            return emit_allocation(generator, event);
        if (generator->window == profile->n_windows)
            return TRACE_END;
        if (!next_window(generator))
            return TRACE_ERROR_MEMORY;
    }
}

int generator_read(struct generator *generator, struct trace_event *events, size_t capacity,
                   size_t *n_read) {
    size_t n = 0;
    while (n < capacity && generator->status == TRACE_OK) {
        generator->status = emit(generator, &events[n]);
        if (generator->status != TRACE_OK)
            break;
        if (generator->window_events >= generator->same_time_until)
            tell_time(generator);
        events[n++].time_ns = generator->totals.time_ns;
        generator->window_events++;
    }
    generator->totals.n_events += n;
    *n_read = n;
    return n > 0 ? TRACE_OK : generator->status;
}

void generator_get_totals(const struct generator *generator, struct generator_totals *totals) {
    *totals = generator->totals;
}

/* ---- opening ---- */

struct generator *generator_open(const struct profile *profile, uint64_t seed) {
    struct generator *generator = memory_map(sizeof *generator);
    if (generator == NULL)
        return NULL;
    generator->profile = profile;
    generator->random = seed;
    generator->is_running = memory_map(profile->n_threads);
    generator->free_slots = memory_map(profile->n_threads * sizeof *generator->free_slots);
    if (generator->is_running == NULL || generator->free_slots == NULL ||
        !wheel_open(&generator->wheel, profile->windows[profile->n_windows].tick) ||
        !enter_window(generator)) {
        generator_close(generator);
        return NULL;
    }
    generator->is_running[0] = 1;
    return generator;
}

void generator_close(struct generator *generator) {
    if (generator == NULL)
        return;
    wheel_close(&generator->wheel);
    memory_unmap(generator->slots, generator->slot_capacity * sizeof *generator->slots);
    memory_unmap(generator->dealt, generator->dealt_capacity * sizeof *generator->dealt);
    memory_unmap(generator->is_running, generator->profile->n_threads);
    uint32_t n_threads = generator->profile->n_threads;
    for (uint32_t i = 0; generator->free_slots != NULL && i < n_threads; i++)
        memory_unmap(generator->free_slots[i].slots,
                     generator->free_slots[i].capacity * sizeof(uint32_t));
    memory_unmap(generator->free_slots, n_threads * sizeof *generator->free_slots);
    memory_unmap(generator, sizeof *generator);
}
