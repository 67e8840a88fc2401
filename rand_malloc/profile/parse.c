/* parse.c - JSON text to struct profile; see profile.h.
 *
 * Every table has room for as many entries as a text of this length can hold; the pages
 * are touched only as they fill.
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
    int has_schema, is_newer;
};

static uint32_t steps_of(const struct parser *parser, uint32_t kind) {
    return kind < parser->profile->n_kinds ? parser->profile->kinds[kind].n_steps : 0;
}

static int complain(struct parser *parser, const char *why) {
    walk_fail(&parser->walk, "%s", why);
    return 0;
}

/* The number that must follow in the array: `what` says how the array looks. */
static int64_t take_element(struct parser *parser, int64_t low, int64_t high, const char *what) {
    if (!walk_has_element(&parser->walk)) {
        complain(parser, what);
        return 0;
    }
    return walk_int(&parser->walk, low, high);
}

static uint32_t take_count(struct parser *parser, int64_t low, int64_t high) {
    return (uint32_t)walk_int(&parser->walk, low, high);
}

/* ---- kinds ---- */

static const char KIND[] =
    "a kind is [op, log2 of alignment, size, thread, size, thread, ..., perhaps [touches]]";

/* Size of the next step, -1 for a free, and its thread. */
static void take_step(struct parser *parser, struct profile_kind *kind) {
    struct profile *profile = parser->profile;
    if (kind->n_steps > 0 && profile->steps[profile->n_steps - 1].is_free)
        complain(parser, "a step comes after a free");
    int64_t size = walk_int(&parser->walk, -1, (int64_t)TRACE_MAX_SIZE);
    struct profile_step step = {.size = size < 0 ? 0 : (uint64_t)size, .is_free = size < 0};
    step.thread = (uint32_t)take_element(parser, 0, (int64_t)profile->n_threads - 1, KIND);
    step.old_size = kind->n_steps > 0 ? profile->steps[profile->n_steps - 1].size : kind->size;
    profile->steps[profile->n_steps++] = step;
    kind->n_steps++;
}

/* Pages that were never touched, -1 where that is not known. */
static uint32_t take_touch(struct parser *parser) {
    return (uint32_t)(walk_int(&parser->walk, -1, UINT32_MAX - 1) + 1);
}

/* The last member of a kind: of its allocation, then of each of its reallocs. */
static void take_touches(struct parser *parser, struct profile_kind *kind) {
    struct profile_step *steps = parser->profile->steps + kind->first_step;
    uint32_t n_reallocs = kind->n_steps;
    uint32_t n = 0; /* touches so far */
    n_reallocs -= n_reallocs > 0 && steps[n_reallocs - 1].is_free;
    walk_enter_array(&parser->walk);
    while (walk_has_element(&parser->walk)) {
        uint32_t touch = take_touch(parser);
        if (n <= n_reallocs)
            *(n == 0 ? &kind->touch : &steps[n - 1].touch) = touch;
        n++;
    }
    if (n != 1 + n_reallocs)
        complain(parser, "a kind needs what is touched at its allocation and at each realloc");
}

static void take_kind(struct parser *parser) {
    struct profile *profile = parser->profile;
    struct profile_kind kind = {.first_step = profile->n_steps};
    walk_enter_array(&parser->walk);
    kind.op = (uint8_t)take_element(parser, TRACE_MALLOC, TRACE_ALIGNED, KIND);
    int64_t most_align = kind.op == TRACE_ALIGNED ? TRACE_MAX_ALIGN_LOG2 : 0;
    kind.align_log2 = (uint8_t)take_element(parser, 0, most_align, KIND);
    kind.size = (uint64_t)take_element(parser, 0, (int64_t)TRACE_MAX_SIZE, KIND);
    kind.thread = (uint32_t)take_element(parser, 0, (int64_t)profile->n_threads - 1, KIND);
    int has_touches = 0;
    while (walk_has_element(&parser->walk)) {
        int is_array = walk_is_array(&parser->walk);
        if (has_touches || (is_array && profile->version < 3))
            complain(parser, KIND);
        else if (is_array)
            take_touches(parser, &kind);
        else
            take_step(parser, &kind);
        has_touches = is_array;
    }
    profile->kinds[profile->n_kinds++] = kind;
}

static void take_kinds(struct parser *parser) {
    if (parser->profile->n_threads == 0 || parser->profile->version == 0 ||
        parser->profile->n_windows > 0) {
        complain(parser, "version and threads come before kinds, kinds before windows");
        return;
    }
    walk_enter_array(&parser->walk);
    while (walk_has_element(&parser->walk))
        take_kind(parser);
}

/* ---- windows ---- */

static void put_code(struct profile *profile, int64_t code) {
    profile->codes[profile->n_codes++] = (int32_t)code;
}

/* A bin whose lower end has more than 32 bits is later than any allocation. */
static int64_t least_code(const struct parser *parser) {
    return -(int64_t)(33u << parser->profile->bins_log2);
}

static const char LIVES[] = "lives are [kind, a code per step, count, a code per step, count, ...]";

/* Lives of one kind and times; their first number is next. */
static void take_lives_of(struct parser *parser, struct profile_window *window, uint32_t kind) {
    struct profile *profile = parser->profile;
    uint32_t n_steps = steps_of(parser, kind);
    int64_t least = least_code(parser);
    struct profile_life life = {.kind = kind, .first_code = profile->n_codes};
    for (uint32_t step = 0; step < n_steps && !parser->walk.has_failed; step++)
        put_code(profile, step == 0 ? walk_int(&parser->walk, least, INT32_MAX)
                                    : take_element(parser, least, INT32_MAX, LIVES));
    life.count = (uint32_t)(n_steps == 0 ? walk_int(&parser->walk, 1, PROFILE_MAX_EVENTS)
                                         : take_element(parser, 1, PROFILE_MAX_EVENTS, LIVES));
    profile->lives[profile->n_lives++] = life;
    window->n_lives++;
    parser->n_allocations += life.count;
    profile->n_events += (uint64_t)life.count * (n_steps + 1);
}

static void take_lives(struct parser *parser, struct profile_window *window) {
    uint32_t n_before = window->n_lives;
    walk_enter_array(&parser->walk);
    uint32_t kind = (uint32_t)take_element(parser, 0, (int64_t)parser->profile->n_kinds - 1, LIVES);
    while (walk_has_element(&parser->walk))
        take_lives_of(parser, window, kind);
    if (window->n_lives == n_before)
        complain(parser, LIVES);
}

static const char FIXED[] =
    "a fixed life is [place, kind, a code per step, perhaps a rank per step]";

/* Allocations of the window before the next fixed life; since version 2 the text counts them
 * from the fixed life before. */
static uint32_t take_offset(struct parser *parser, const struct profile_window *window) {
    const struct profile *profile = parser->profile;
    uint32_t least = window->n_fixed > 0 ? profile->fixed[profile->n_fixed - 1].offset + 1 : 0;
    if (profile->version == 1)
        return (uint32_t)take_element(parser, least, PROFILE_MAX_EVENTS, FIXED);
    return least + (uint32_t)take_element(parser, 0, (int64_t)PROFILE_MAX_EVENTS - least, FIXED);
}

/* The ranks of the n steps whose codes were read last; the first one is next. */
static void take_ranks(struct parser *parser, int32_t *codes, uint32_t n) {
    for (uint32_t i = n; i-- > 0;) /* makes room behind each code */
        codes[2 * (size_t)i] = codes[i];
    for (uint32_t i = 0; i < n && !parser->walk.has_failed; i++)
        codes[2 * (size_t)i + 1] = (int32_t)(i == 0 ? walk_int(&parser->walk, 0, INT32_MAX)
                                                    : take_element(parser, 0, INT32_MAX, FIXED));
    parser->profile->n_codes += n;
}

static void take_fixed(struct parser *parser, struct profile_window *window) {
    struct profile *profile = parser->profile;
    struct profile_fixed fixed = {.first_code = profile->n_codes};
    walk_enter_array(&parser->walk);
    fixed.offset = take_offset(parser, window);
    fixed.kind = (uint32_t)take_element(parser, 0, (int64_t)profile->n_kinds - 1, FIXED);
    uint32_t n_steps = steps_of(parser, fixed.kind);
    for (uint32_t i = 0; i < n_steps && !parser->walk.has_failed; i++)
        put_code(profile, take_element(parser, -INT32_MAX, INT32_MAX, FIXED));
    if (walk_has_element(&parser->walk)) {
        fixed.has_ranks = n_steps > 0 && profile->version > 1;
        if (fixed.has_ranks)
            take_ranks(parser, profile->codes + fixed.first_code, n_steps);
        if (!fixed.has_ranks || walk_has_element(&parser->walk))
            complain(parser, FIXED);
    }
    profile->fixed[profile->n_fixed++] = fixed;
    window->n_fixed++;
    parser->n_allocations++;
    profile->n_events += (uint64_t)n_steps + 1;
}

static void take_thread_event(struct parser *parser, struct profile_window *window) {
    static const char EVENT[] = "a thread event is [op, thread]";
    struct profile *profile = parser->profile;
    struct profile_thread_event event = {.thread = 0};
    walk_enter_array(&parser->walk);
    event.op = (uint8_t)take_element(parser, TRACE_THREAD_START, TRACE_THREAD_EXIT, EVENT);
    event.thread = (uint32_t)take_element(parser, 1, (int64_t)profile->n_threads - 1, EVENT);
    if (walk_has_element(&parser->walk))
        complain(parser, EVENT);
    profile->thread_events[profile->n_thread_events++] = event;
    window->n_thread_events++;
    profile->n_events++;
}

typedef void (*take_member)(struct parser *, struct profile_window *);

static void take_list(struct parser *parser, struct profile_window *window, take_member take) {
    walk_enter_array(&parser->walk);
    while (walk_has_element(&parser->walk))
        take(parser, window);
}

static void take_window_member(struct parser *parser, struct profile_window *window) {
    struct walk *walk = &parser->walk;
    if (walk_take_key(walk, "time_ns"))
        window->time_ns = (uint64_t)walk_int(walk, 0, (int64_t)1 << 62);
    else if (walk_take_key(walk, "events"))
        window->n_events = take_count(parser, 0, PROFILE_MAX_EVENTS);
    else if (walk_take_key(walk, "allocations"))
        window->n_allocations = take_count(parser, 0, PROFILE_MAX_EVENTS);
    else if (walk_take_key(walk, "lifo_permille"))
        window->lifo_permille = take_count(parser, 0, 1000);
    else if (walk_take_key(walk, "threads"))
        take_list(parser, window, take_thread_event);
    else if (walk_take_key(walk, "lives"))
        take_list(parser, window, take_lives);
    else if (walk_take_key(walk, "fixed"))
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
    if (profile->n_events > PROFILE_MAX_EVENTS)
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
    walk_enter_object(&parser->walk);
    while (walk_has_member(&parser->walk))
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
    walk_enter_array(&parser->walk);
    while (walk_has_element(&parser->walk))
        take_window(parser);
    struct profile *profile = parser->profile;
    profile->windows[profile->n_windows].tick = parser->n_allocations;
}

/* ---- threads ---- */

/* Every allocation is by a thread that runs there. */
static void check_allocators(struct parser *parser) {
    const struct profile *profile = parser->profile;
    for (uint32_t w = 0; w < profile->n_windows && profile->n_threads > 1; w++) {
        const struct profile_window *window = &profile->windows[w];
        int all_run = 1;
        for (uint32_t i = 0; i < window->n_lives; i++)
            all_run &= profile_runs_in(
                profile, profile->kinds[profile->lives[window->first_life + i].kind].thread, w);
        for (uint32_t i = 0; i < window->n_fixed; i++)
            all_run &= profile_runs_in(
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
    const char *text;
    size_t n_bytes;
    walk_skip(&parser->walk, &text, &n_bytes);
    if (parser->walk.has_failed)
        return;
    memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    parser->profile->metadata = copy;
}

/* A text without escapes; what does not fit is cut off. */
static void take_level(struct parser *parser) {
    char *level = parser->profile->level;
    const char *text;
    size_t n_bytes;
    walk_skip(&parser->walk, &text, &n_bytes);
    if (n_bytes >= sizeof parser->profile->level)
        n_bytes = sizeof parser->profile->level - 1;
    memcpy(level, text, n_bytes);
    level[n_bytes] = '\0';
}

/* Members that describe and are not generated from. */
static int take_description(struct walk *walk) {
    static const char *const NAMES[] = {"source", "fidelity"};
    const char *text;
    size_t n_bytes;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (walk_take_key(walk, NAMES[i])) {
            walk_skip(walk, &text, &n_bytes);
            return 1;
        }
    return 0;
}

static uint8_t take_time(struct walk *walk, uint64_t *time_ns) {
    *time_ns = (uint64_t)walk_int(walk, 0, (int64_t)TRACE_MAX_LIFE_NS);
    return 1;
}

static void take_member_of_profile(struct parser *parser, char *metadata) {
    struct walk *walk = &parser->walk;
    struct profile *profile = parser->profile;
    if (walk_take_key(walk, "schema"))
        take_schema(parser);
    else if (profile->version == 0 && walk_take_key(walk, "version"))
        take_version(parser);
    else if (walk_take_key(walk, "level"))
        take_level(parser);
    else if (walk_take_key(walk, "metadata"))
        take_metadata(parser, metadata);
    else if (walk_take_key(walk, "page_bytes"))
        profile->page_bytes = take_count(parser, 1, 1 << 24);
    else if (profile->n_threads == 0 && walk_take_key(walk, "threads"))
        profile->n_threads = take_count(parser, 1, TRACE_MAX_THREADS);
    else if (walk_take_key(walk, "duration_ns"))
        profile->duration_ns = (uint64_t)walk_int(walk, 0, (int64_t)1 << 62);
    else if (walk_take_key(walk, "start_ns"))
        profile->life.has_start = take_time(walk, &profile->life.start_ns);
    else if (walk_take_key(walk, "end_ns"))
        profile->life.has_end = take_time(walk, &profile->life.end_ns);
    else if (profile->n_windows == 0 && walk_take_key(walk, "age_bins_log2"))
        profile->bins_log2 = take_count(parser, 0, 8);
    else if (profile->n_windows == 0 && walk_take_key(walk, "parts"))
        profile->parts = take_count(parser, 1, 4096);
    else if (profile->n_kinds == 0 && walk_take_key(walk, "kinds"))
        take_kinds(parser);
    else if (walk_take_key(walk, "windows"))
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

/* The process ends neither before its last event nor before its start. */
static void check_life(struct parser *parser) {
    const struct profile *profile = parser->profile;
    const struct trace_life *life = &profile->life;
    if (life->has_end && life->end_ns < profile->duration_ns)
        complain(parser, "the process ends before its last event");
    uint64_t end_ns = life->has_end ? life->end_ns : profile->duration_ns;
    if (life->has_start && life->start_ns > end_ns)
        complain(parser, "the process ends before it starts");
}

static void take_profile(struct parser *parser, char *metadata) {
    struct walk *walk = &parser->walk;
    struct profile *profile = parser->profile;
    walk_enter_object(walk);
    while (walk_has_member(walk))
        take_member_of_profile(parser, metadata);
    walk_finish(walk);
    if (!parser->has_schema || profile->version == 0)
        complain(parser,
                 "not a malloc-tuner trace, and no profile: schema and version are missing");
    if (profile->n_windows == 0 || profile->parts == 0 || profile->metadata == NULL)
        complain(parser, "windows, parts or metadata are missing");
    if (!walk->has_failed &&
        profile->duration_ns < profile->windows[profile->n_windows - 1].time_ns)
        complain(parser, "the last window begins behind the end");
    if (!walk->has_failed)
        check_life(parser);
    if (!walk->has_failed)
        check_touches(parser);
    const char *why = walk->has_failed ? NULL : profile_find_spans(profile);
    if (why != NULL)
        complain(parser, why);
    if (!walk->has_failed)
        check_allocators(parser);
}

/* Cuts n entries from the block that *next runs through. */
static void *cut(uintptr_t *next, size_t n, size_t bytes) {
    uintptr_t table = *next;
    *next += (n * bytes + 63) & ~(uintptr_t)63;
    return (void *)table;
}

/* Places the tables behind each other from base on; returns the bytes they take.  The number
 * of each's entries is bounded by the shortest text of one, its comma included. */
static size_t lay_out(struct profile *profile, size_t text_bytes, char **metadata, uintptr_t base) {
    uintptr_t next = base;
    size_t n = text_bytes + 64;
    size_t n_windows = (n / 3 < PROFILE_MAX_WINDOWS ? n / 3 : PROFILE_MAX_WINDOWS) + 2;
    profile->windows = cut(&next, n_windows, sizeof *profile->windows); /* {}, */
    profile->kinds = cut(&next, n / 10, sizeof *profile->kinds);        /* [0,0,0,0], */
    profile->steps = cut(&next, n / 4, sizeof *profile->steps);         /* 0,0, */
    profile->lives = cut(&next, n / 2, sizeof *profile->lives);         /* 1, */
    profile->fixed = cut(&next, n / 6, sizeof *profile->fixed);         /* [0,0], */
    profile->thread_events = cut(&next, n / 6, sizeof *profile->thread_events);
    profile->spans = cut(&next, n / 6, sizeof *profile->spans); /* one for each start */
    profile->first_span = cut(&next, TRACE_MAX_THREADS + 2, sizeof *profile->first_span);
    profile->codes = cut(&next, n, sizeof *profile->codes); /* 0, and room for its rank */
    *metadata = cut(&next, text_bytes + 1, 1);
    return next - base;
}

int profile_parse(const char *text, size_t n_bytes, struct profile *profile, char *message,
                  size_t message_bytes) {
    struct parser parser = {.profile = profile};
    char *metadata = NULL;
    *profile = (struct profile){.page_bytes = 4096, .level = "profile"};
    walk_open(&parser.walk, text, n_bytes);
    profile->memory_bytes = lay_out(profile, n_bytes, &metadata, 0);
    profile->memory = memory_map(profile->memory_bytes);
    if (profile->memory == NULL) {
        complain(&parser, "no memory for its tables");
    } else {
        lay_out(profile, n_bytes, &metadata, (uintptr_t)profile->memory);
        take_profile(&parser, metadata);
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
