/* parse.c - JSON text to struct profile; see profile.h.
 *
 * Every table has room for as many entries as the text has tokens, which no text can
 * exceed; the pages are touched only as they fill.
 */
#include "profile.h"

#include "json_walk.h"
#include "memory.h"
#include "trace.h"

#include <stdio.h>
#include <string.h>

static const char SCHEMA[] = "malloc-tuner.profile";

struct parser {
    struct walk walk;
    struct profile *profile;
    uint64_t n_allocations; /* of the windows so far */
    uint64_t n_events;      /* that these lives will have */
    int has_schema, is_newer;
};

static uint32_t steps_of(const struct parser *parser, uint32_t kind) {
    return kind < parser->profile->n_kinds ? parser->profile->kinds[kind].n_steps : 0;
}

static uint32_t take_count(struct parser *parser, int64_t low, int64_t high) {
    return (uint32_t)walk_int(&parser->walk, low, high);
}

static uint32_t take_thread(struct parser *parser) {
    return take_count(parser, 0, (int64_t)parser->profile->n_threads - 1);
}

static int complain(struct parser *parser, const char *why) {
    walk_fail(&parser->walk, "%s", why);
    return 0;
}

/* ---- kinds ---- */

/* Size of the next step, -1 for a free, and its thread. */
static void take_step(struct parser *parser, int is_last) {
    struct profile *profile = parser->profile;
    int64_t size = walk_int(&parser->walk, -1, (int64_t)TRACE_MAX_SIZE);
    if (size < 0 && !is_last)
        complain(parser, "a step comes after a free");
    profile->steps[profile->n_steps++] = (struct profile_step){
        .size = size < 0 ? 0 : (uint64_t)size,
        .is_free = size < 0,
        .thread = take_thread(parser),
    };
}

/* Pages that were never touched, -1 where that is not known. */
static uint32_t take_touch(struct parser *parser) {
    return (uint32_t)(walk_int(&parser->walk, -1, UINT32_MAX - 1) + 1);
}

/* The last member of a kind: of its allocation, then of each of its reallocs. */
static void take_touches(struct parser *parser, struct profile_kind *kind) {
    struct profile_step *steps = parser->profile->steps + kind->first_step;
    uint32_t n_reallocs = kind->n_steps;
    n_reallocs -= n_reallocs > 0 && steps[n_reallocs - 1].is_free;
    if (walk_enter_array(&parser->walk) != 1 + n_reallocs) {
        complain(parser, "what a kind touches is told of its allocation and of each realloc");
        return;
    }
    kind->touch = take_touch(parser);
    for (uint32_t i = 0; i < n_reallocs; i++)
        steps[i].touch = take_touch(parser);
}

static void take_kind(struct parser *parser) {
    struct profile *profile = parser->profile;
    uint32_t n = walk_enter_array(&parser->walk);
    uint32_t has_touches = profile->version > 2 ? n % 2 : 0;
    n -= has_touches;
    if (n < 4 || n % 2 != 0) {
        complain(parser, "a kind is [op, log2 of alignment, size, thread, size, thread, ...]");
        return;
    }
    struct profile_kind kind = {.first_step = profile->n_steps, .n_steps = (n - 4) / 2};
    kind.op = (uint8_t)walk_int(&parser->walk, TRACE_MALLOC, TRACE_ALIGNED);
    kind.align_log2 =
        (uint8_t)walk_int(&parser->walk, 0, kind.op == TRACE_ALIGNED ? TRACE_MAX_ALIGN_LOG2 : 0);
    kind.size = (uint64_t)walk_int(&parser->walk, 0, (int64_t)TRACE_MAX_SIZE);
    kind.thread = take_thread(parser);
    for (uint32_t i = 0; i < kind.n_steps && !parser->walk.has_failed; i++)
        take_step(parser, i + 1 == kind.n_steps);
    if (has_touches && !parser->walk.has_failed)
        take_touches(parser, &kind);
    profile->kinds[profile->n_kinds++] = kind;
}

static void take_kinds(struct parser *parser) {
    if (parser->profile->n_threads == 0 || parser->profile->version == 0 ||
        parser->profile->n_windows > 0) {
        complain(parser, "version and threads come before kinds, kinds before windows");
        return;
    }
    uint32_t n = walk_enter_array(&parser->walk);
    while (n-- > 0 && !parser->walk.has_failed)
        take_kind(parser);
}

/* ---- windows ---- */

static uint32_t take_kind_number(struct parser *parser) {
    return take_count(parser, 0, (int64_t)parser->profile->n_kinds - 1);
}

static void take_code(struct parser *parser, int64_t low) {
    struct profile *profile = parser->profile;
    profile->codes[profile->n_codes++] = (int32_t)walk_int(&parser->walk, low, INT32_MAX);
}

/* A bin whose lower end has more than 32 bits is later than any allocation. */
static int64_t least_code(const struct parser *parser) {
    return -(int64_t)(33u << parser->profile->bins_log2);
}

static void take_lives(struct parser *parser, struct profile_window *window) {
    struct profile *profile = parser->profile;
    uint32_t n = walk_enter_array(&parser->walk);
    uint32_t kind = take_kind_number(parser);
    uint32_t stride = steps_of(parser, kind) + 1;
    if (n < 1 + stride || (n - 1) % stride != 0) {
        complain(parser, "lives are [kind, a code per step, count, a code per step, count, ...]");
        return;
    }
    for (uint32_t i = 1; i < n && !parser->walk.has_failed; i += stride) {
        struct profile_life life = {.kind = kind, .first_code = profile->n_codes};
        for (uint32_t step = 1; step < stride; step++)
            take_code(parser, least_code(parser));
        life.count = take_count(parser, 1, PROFILE_MAX_EVENTS);
        profile->lives[profile->n_lives++] = life;
        window->n_lives++;
        parser->n_allocations += life.count;
        parser->n_events += (uint64_t)life.count * stride;
    }
}

/* Allocations of the window before the next fixed life; since version 2 the text counts them
 * from the fixed life before. */
static uint32_t take_offset(struct parser *parser, const struct profile_window *window) {
    const struct profile *profile = parser->profile;
    uint32_t least = window->n_fixed > 0 ? profile->fixed[profile->n_fixed - 1].offset + 1 : 0;
    if (profile->version == 1)
        return take_count(parser, least, PROFILE_MAX_EVENTS);
    return least + take_count(parser, 0, (int64_t)PROFILE_MAX_EVENTS - least);
}

static void take_fixed(struct parser *parser, struct profile_window *window) {
    struct profile *profile = parser->profile;
    uint32_t n = walk_enter_array(&parser->walk);
    struct profile_fixed fixed = {.first_code = profile->n_codes};
    fixed.offset = take_offset(parser, window);
    fixed.kind = take_kind_number(parser);
    uint32_t n_steps = steps_of(parser, fixed.kind);
    fixed.has_ranks = n_steps > 0 && n == 2 + 2 * n_steps && profile->version > 1;
    if (n != 2 + (fixed.has_ranks ? 2 : 1) * n_steps) {
        complain(parser, "a fixed life is [place, kind, a code per step, perhaps a rank per step]");
        return;
    }
    for (uint32_t i = 0; i < n_steps; i++)
        take_code(parser, -INT32_MAX);
    for (uint32_t i = 2 + n_steps; i < n; i++)
        take_code(parser, 0);
    profile->fixed[profile->n_fixed++] = fixed;
    window->n_fixed++;
    parser->n_allocations++;
    parser->n_events += n_steps + 1;
}

static void take_thread_event(struct parser *parser, struct profile_window *window) {
    struct profile *profile = parser->profile;
    if (walk_enter_array(&parser->walk) != 2)
        complain(parser, "a thread event is [op, thread]");
    uint8_t op = (uint8_t)walk_int(&parser->walk, TRACE_THREAD_START, TRACE_THREAD_EXIT);
    uint32_t thread = take_count(parser, 1, (int64_t)profile->n_threads - 1);
    profile->thread_events[profile->n_thread_events++] =
        (struct profile_thread_event){.thread = thread, .op = op};
    window->n_thread_events++;
    parser->n_events++;
}

typedef void (*take_member)(struct parser *, struct profile_window *);

static void take_list(struct parser *parser, struct profile_window *window, take_member take) {
    uint32_t n = walk_enter_array(&parser->walk);
    while (n-- > 0 && !parser->walk.has_failed)
        take(parser, window);
}

static void take_window_member(struct parser *parser, struct profile_window *window) {
    struct walk *walk = &parser->walk;
    if (walk_take_text(walk, "time_ns"))
        window->time_ns = (uint64_t)walk_int(walk, 0, (int64_t)1 << 62);
    else if (walk_take_text(walk, "events"))
        window->n_events = take_count(parser, 0, PROFILE_MAX_EVENTS);
    else if (walk_take_text(walk, "allocations"))
        window->n_allocations = take_count(parser, 0, PROFILE_MAX_EVENTS);
    else if (walk_take_text(walk, "lifo_permille"))
        window->lifo_permille = take_count(parser, 0, 1000);
    else if (walk_take_text(walk, "threads"))
        take_list(parser, window, take_thread_event);
    else if (walk_take_text(walk, "lives"))
        take_list(parser, window, take_lives);
    else if (walk_take_text(walk, "fixed"))
        take_list(parser, window, take_fixed);
    else
        complain(parser, "an unknown key of a window");
}

/* What must hold of a window that was read whole. */
static void check_window(struct parser *parser, const struct profile_window *window) {
    const struct profile *profile = parser->profile;
    const struct profile_window *before = window - 1;
    if (profile->n_windows > 0 && window->time_ns < before->time_ns)
        complain(parser, "a window begins before the one before it");
    if (parser->n_allocations - window->tick != window->n_allocations)
        complain(parser, "the lives of a window are not as many as its allocations");
    if (window->n_fixed > 0 && profile->fixed[profile->n_fixed - 1].offset >= window->n_allocations)
        complain(parser, "a fixed life lies beyond its window");
    if (parser->n_events > PROFILE_MAX_EVENTS)
        walk_fail(&parser->walk, "the lives make more than %u events; fit a part of the trace",
                  PROFILE_MAX_EVENTS);
    if (profile->n_windows >= PROFILE_MAX_WINDOWS)
        complain(parser, "more than 65535 windows");
}

static void take_window(struct parser *parser) {
    struct profile *profile = parser->profile;
    struct profile_window *window = &profile->windows[profile->n_windows];
    *window = (struct profile_window){.tick = parser->n_allocations,
                                      .first_life = profile->n_lives,
                                      .first_fixed = profile->n_fixed,
                                      .first_thread_event = profile->n_thread_events};
    uint32_t n = walk_enter_object(&parser->walk);
    while (n-- > 0 && !parser->walk.has_failed)
        take_window_member(parser, window);
    if (parser->walk.has_failed)
        return;
    check_window(parser, window);
    profile->n_windows++;
}

static void take_windows(struct parser *parser) {
    if (parser->profile->version == 0 || parser->profile->n_kinds == 0 ||
        parser->profile->n_windows > 0)
        complain(parser, "windows come once, behind the version, the kinds and the age bins");
    uint32_t n = walk_enter_array(&parser->walk);
    while (n-- > 0 && !parser->walk.has_failed)
        take_window(parser);
    struct profile *profile = parser->profile;
    profile->windows[profile->n_windows].tick = parser->n_allocations;
}

/* ---- threads ---- */

const struct profile_span *profile_span_at(const struct profile *profile, uint32_t thread,
                                           uint32_t window) {
    uint32_t low = profile->first_span[thread];
    uint32_t high = profile->first_span[thread + 1];
    const struct profile_span *found = NULL;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct profile_span *span = &profile->spans[middle];
        if (span->begin > window) {
            high = middle;
        } else {
            found = span;
            low = middle + 1;
        }
    }
    return found;
}

static int runs_in(const struct profile *profile, uint32_t thread, uint32_t window) {
    const struct profile_span *span = profile_span_at(profile, thread, window);
    return thread == 0 || (span != NULL && window < span->end);
}

/* Room for the lives of each thread: first_span from the number of its starts. */
static void count_spans(struct profile *profile) {
    uint32_t *count = profile->first_span + 1;
    for (uint32_t i = 0; i < profile->n_thread_events; i++)
        if (profile->thread_events[i].op == TRACE_THREAD_START)
            count[profile->thread_events[i].thread]++;
    for (uint32_t thread = 0; thread < profile->n_threads; thread++)
        profile->first_span[thread + 1] += profile->first_span[thread];
}

/* Applies one event; n_spans counts the lives of each thread so far. */
static const char *apply_thread_event(struct profile *profile, uint32_t *n_spans, uint32_t *n_lanes,
                                      const struct profile_thread_event *event, uint32_t window) {
    struct profile_span *next =
        &profile->spans[profile->first_span[event->thread] + n_spans[event->thread]];
    int runs = n_spans[event->thread] > 0 && next[-1].end == UINT32_MAX;
    if (event->op == TRACE_THREAD_START) {
        if (runs || event->thread > *n_lanes)
            return "a thread starts that runs, or before one with a lower number";
        *n_lanes += event->thread == *n_lanes;
        *next = (struct profile_span){.begin = window, .end = UINT32_MAX};
        n_spans[event->thread]++;
        return NULL;
    }
    if (!runs)
        return "a thread exits that does not run";
    next[-1].end = window;
    return NULL;
}

static void find_spans(struct parser *parser) {
    struct profile *profile = parser->profile;
    size_t bytes = ((size_t)profile->n_threads + 1) * sizeof(uint32_t);
    uint32_t *n_spans = memory_map(bytes);
    uint32_t n_lanes = 1;
    const char *why = n_spans == NULL ? "no memory for its threads" : NULL;
    count_spans(profile);
    for (uint32_t w = 0; w < profile->n_windows && why == NULL; w++) {
        const struct profile_window *window = &profile->windows[w];
        for (uint32_t i = 0; i < window->n_thread_events && why == NULL; i++)
            why = apply_thread_event(profile, n_spans, &n_lanes,
                                     &profile->thread_events[window->first_thread_event + i], w);
    }
    memory_unmap(n_spans, bytes);
    if (why == NULL && n_lanes != profile->n_threads)
        why = "some thread never starts";
    if (why != NULL)
        complain(parser, why);
}

/* Every allocation is by a thread that runs there. */
static void check_allocators(struct parser *parser) {
    const struct profile *profile = parser->profile;
    for (uint32_t w = 0; w < profile->n_windows && profile->n_threads > 1; w++) {
        const struct profile_window *window = &profile->windows[w];
        int all_run = 1;
        for (uint32_t i = 0; i < window->n_lives; i++)
            all_run &= runs_in(
                profile, profile->kinds[profile->lives[window->first_life + i].kind].thread, w);
        for (uint32_t i = 0; i < window->n_fixed; i++)
            all_run &= runs_in(
                profile, profile->kinds[profile->fixed[window->first_fixed + i].kind].thread, w);
        if (!all_run)
            walk_fail(&parser->walk, "in window %u a thread allocates that does not run", w);
    }
}

/* ---- the whole ---- */

static void take_schema(struct parser *parser) {
    parser->has_schema = walk_take_text(&parser->walk, SCHEMA);
    if (!parser->has_schema)
        walk_fail(&parser->walk, "the schema is not %s", SCHEMA);
}

static void take_version(struct parser *parser) {
    int64_t version = walk_int(&parser->walk, 1, INT32_MAX);
    parser->is_newer = version > PROFILE_VERSION;
    if (parser->is_newer)
        walk_fail(
            &parser->walk,
            "version %lld is newer than %d, the newest this build reads; upgrade malloc-tuner",
            (long long)version, PROFILE_VERSION);
    parser->profile->version = (uint32_t)version;
}

static void take_metadata(struct parser *parser, char *copy) {
    size_t begin;
    size_t end;
    if (parser->walk.at < parser->walk.n_tokens && !parser->walk.has_failed) {
        walk_skip(&parser->walk, &begin, &end);
        memcpy(copy, parser->walk.text + begin, end - begin);
        copy[end - begin] = '\0';
        parser->profile->metadata = copy;
    }
}

/* A text without escapes; what does not fit is cut off. */
static void take_level(struct parser *parser) {
    char *level = parser->profile->level;
    size_t begin;
    size_t end;
    walk_skip(&parser->walk, &begin, &end);
    size_t length = end - begin < sizeof parser->profile->level ? end - begin
                                                                : sizeof parser->profile->level - 1;
    memcpy(level, parser->walk.text + begin, length);
    level[length] = '\0';
}

/* Members that describe and are not generated from. */
static int take_description(struct walk *walk) {
    static const char *const NAMES[] = {"source", "fidelity"};
    size_t begin;
    size_t end;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (walk_take_text(walk, NAMES[i])) {
            walk_skip(walk, &begin, &end);
            return 1;
        }
    return 0;
}

static void take_member_of_profile(struct parser *parser, char *metadata) {
    struct walk *walk = &parser->walk;
    struct profile *profile = parser->profile;
    if (walk_take_text(walk, "schema"))
        take_schema(parser);
    else if (profile->version == 0 && walk_take_text(walk, "version"))
        take_version(parser);
    else if (walk_take_text(walk, "level"))
        take_level(parser);
    else if (walk_take_text(walk, "metadata"))
        take_metadata(parser, metadata);
    else if (walk_take_text(walk, "page_bytes"))
        profile->page_bytes = take_count(parser, 1, 1 << 24);
    else if (profile->n_threads == 0 && walk_take_text(walk, "threads"))
        profile->n_threads = take_count(parser, 1, TRACE_MAX_THREADS);
    else if (walk_take_text(walk, "duration_ns"))
        profile->duration_ns = (uint64_t)walk_int(walk, 0, (int64_t)1 << 62);
    else if (profile->n_windows == 0 && walk_take_text(walk, "age_bins_log2"))
        profile->bins_log2 = take_count(parser, 0, 8);
    else if (profile->n_windows == 0 && walk_take_text(walk, "parts"))
        profile->parts = take_count(parser, 1, 4096);
    else if (profile->n_kinds == 0 && walk_take_text(walk, "kinds"))
        take_kinds(parser);
    else if (walk_take_text(walk, "windows"))
        take_windows(parser);
    else if (!take_description(walk))
        complain(parser, "an unknown, repeated or misplaced key");
}

static int has_pages(const struct profile *profile, uint64_t size, uint32_t touch) {
    return touch <= 1 || touch - 1 <= size / profile->page_bytes;
}

/* No block has more untouched pages than pages. */
static void check_touches(struct parser *parser) {
    const struct profile *profile = parser->profile;
    int all_fit = 1;
    for (uint32_t i = 0; i < profile->n_kinds; i++)
        all_fit &= has_pages(profile, profile->kinds[i].size, profile->kinds[i].touch);
    for (uint32_t i = 0; i < profile->n_steps; i++)
        all_fit &= has_pages(profile, profile->steps[i].size, profile->steps[i].touch);
    if (!all_fit)
        complain(parser, "a kind has more untouched pages than its block has pages");
}

static void take_profile(struct parser *parser, char *metadata) {
    struct walk *walk = &parser->walk;
    struct profile *profile = parser->profile;
    uint32_t n = walk_enter_object(walk);
    while (n-- > 0 && !walk->has_failed)
        take_member_of_profile(parser, metadata);
    if (!parser->has_schema || profile->version == 0)
        complain(parser,
                 "not a malloc-tuner trace, and no profile: schema and version are missing");
    if (profile->n_windows == 0 || profile->parts == 0 || profile->metadata == NULL)
        complain(parser, "windows, parts or metadata are missing");
    if (!walk->has_failed &&
        profile->duration_ns < profile->windows[profile->n_windows - 1].time_ns)
        complain(parser, "the last window begins behind the end");
    if (!walk->has_failed)
        check_touches(parser);
    if (!walk->has_failed)
        find_spans(parser);
    if (!walk->has_failed)
        check_allocators(parser);
}

/* Cuts n entries from the block that *next runs through. */
static void *cut(uintptr_t *next, size_t n, size_t bytes) {
    uintptr_t table = *next;
    *next += (n * bytes + 63) & ~(uintptr_t)63;
    return (void *)table;
}

/* Places the tables behind each other from base on; returns the bytes they take. */
static size_t lay_out(struct profile *profile, size_t n, size_t text_bytes, char **metadata,
                      uintptr_t base) {
    uintptr_t next = base;
    size_t n_windows = (n < PROFILE_MAX_WINDOWS ? n : PROFILE_MAX_WINDOWS) + 2;
    profile->windows = cut(&next, n_windows, sizeof *profile->windows);
    profile->kinds = cut(&next, n, sizeof *profile->kinds);
    profile->steps = cut(&next, n, sizeof *profile->steps);
    profile->lives = cut(&next, n, sizeof *profile->lives);
    profile->fixed = cut(&next, n, sizeof *profile->fixed);
    profile->thread_events = cut(&next, n, sizeof *profile->thread_events);
    profile->spans = cut(&next, n, sizeof *profile->spans);
    profile->first_span = cut(&next, TRACE_MAX_THREADS + 2, sizeof *profile->first_span);
    profile->codes = cut(&next, n, sizeof *profile->codes);
    *metadata = cut(&next, text_bytes + 1, 1);
    return next - base;
}

int profile_parse(const char *text, size_t n_bytes, struct profile *profile, char *message,
                  size_t message_bytes) {
    struct parser parser = {.profile = profile};
    char *metadata = NULL;
    *profile = (struct profile){.page_bytes = 4096, .level = "profile"};
    int is_open = walk_open(&parser.walk, text, n_bytes);
    if (is_open) {
        profile->memory_bytes = lay_out(profile, parser.walk.n_tokens, n_bytes, &metadata, 0);
        profile->memory = memory_map(profile->memory_bytes);
        if (profile->memory == NULL) {
            complain(&parser, "no memory for its tables");
        } else {
            lay_out(profile, parser.walk.n_tokens, n_bytes, &metadata, (uintptr_t)profile->memory);
            take_profile(&parser, metadata);
        }
    }
    walk_close(&parser.walk);
    if (!parser.walk.has_failed)
        return TRACE_OK;
    snprintf(message, message_bytes, "%s", parser.walk.message);
    profile_release(profile);
    return parser.is_newer ? TRACE_ERROR_VERSION : TRACE_ERROR_FORMAT;
}

void profile_release(struct profile *profile) {
    memory_unmap(profile->memory, profile->memory_bytes);
    *profile = (struct profile){.page_bytes = 0};
}

uint64_t profile_bin(const struct profile *profile, uint32_t bin, uint64_t *width) {
    uint32_t per_octave = 1u << profile->bins_log2;
    uint32_t octave = bin / per_octave;
    *width = 1;
    if (octave <= 1)
        return bin;
    *width = UINT64_C(1) << (octave - 1);
    return (uint64_t)(bin % per_octave + per_octave) << (octave - 1);
}
