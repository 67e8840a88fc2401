/* source.c - see source.h.  Text whose first byte that is no blank is `{` is a profile, as is one
 * that begins with the key schema, in TOML.  It may be packed with zstd. */
#include "source.h"

#include "generator.h"
#include "memory.h"
#include "profile.h"
#include "text.h"
#include "toml.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind {
    KIND_TRACE,
    KIND_PROFILE,
    KIND_TOML /* a profile too; only while it is recognised */
};

/* The totals of what is generated are known only at its end.  Its events are kept, so that it need
 * not be generated again to be read, unless they are too many. */
enum {
    KEPT_EVENTS_MAX = 16777216, /* 640 MiB */
    CHUNK_EVENTS = 4096         /* of those that are not kept */
};

struct kept {
    struct trace_event *events;
    size_t capacity;
    size_t n_events;
    size_t next; /* to be read */
};

struct source {
    enum kind kind;
    struct trace_reader *reader; /* of a trace; the rest is for profiles */
    struct profile profile;
    struct generator *generator;
    struct kept kept; /* all events, or none */
    struct trace_info info;
    uint64_t seed;
    int is_streamed; /* generated once, as it is read */
    int status;      /* TRACE_OK, or what ended reading */
    char path[200];
    char message[512]; /* path and what parse says fit */
};

static int fail(struct source *source, int status, const char *why) {
    snprintf(source->message, sizeof source->message, "%s: %s", source->path, why);
    source->status = status;
    return status;
}

/* ---- what is generated ---- */

static void close_generator(struct source *source) {
    generator_close(source->generator);
    source->generator = NULL;
}

/* Begins at the first event. */
static int start_generating(struct source *source) {
    close_generator(source);
    source->generator = generator_open(&source->profile, source->seed);
    if (source->generator == NULL)
        return fail(source, TRACE_ERROR_MEMORY, "no memory to generate from it");
    source->status = TRACE_OK;
    return TRACE_OK;
}

static void drop_kept(struct source *source) {
    memory_unmap(source->kept.events, source->kept.capacity * sizeof(struct trace_event));
    source->kept = (struct kept){.events = NULL};
}

static void note_totals(struct source *source) {
    struct generator_totals totals;
    generator_get_totals(source->generator, &totals);
    source->info = (struct trace_info){
        .version = PROFILE_VERSION,
        .n_threads = source->profile.n_threads,
        .n_slots = totals.n_slots,
        .page_bytes = source->profile.page_bytes,
        .n_events = source->profile.n_events,
        .duration_ns = totals.time_ns,
        .peak_live_bytes = totals.peak_live_bytes,
        .peak_live_blocks = totals.peak_live_blocks,
        .is_complete = 1,
        .life = source->profile.life,
    };
}

/* Makes room for n events; false if there is none. */
static int make_room(struct kept *kept, size_t n) {
    size_t n_bytes = n * sizeof *kept->events;
    kept->events = n <= KEPT_EVENTS_MAX ? memory_map(n_bytes) : NULL;
    if (kept->events == NULL)
        return 0;
    memory_prefer_huge(kept->events, n_bytes);
    kept->capacity = n;
    return 1;
}

static int read_profile(struct source *source, struct trace_event *events, size_t capacity,
                        size_t *n_read) {
    int status = generator_read(source->generator, events, capacity, n_read);
    if (source->is_streamed)
        note_totals(source);
    return status == TRACE_ERROR_FORMAT ? fail(source, status, "the live bytes are out of range")
                                        : status;
}

/* As source_read, without those that are kept. */
static int generate(struct source *source, struct trace_event *events, size_t capacity,
                    size_t *n_read) {
    if (source->status != TRACE_OK)
        return source->status;
    int status = read_profile(source, events, capacity, n_read);
    if (status == TRACE_ERROR_MEMORY)
        fail(source, status, "no memory for the lives in progress");
    source->status = status;
    return status;
}

/* Generates everything once; of what cannot be kept whole only the last events are. */
static int keep_events(struct source *source, int *is_whole) {
    struct kept *kept = &source->kept;
    size_t n;
    int status;
    *is_whole = make_room(kept, source->profile.n_events + 1);
    if (!*is_whole && !make_room(kept, CHUNK_EVENTS))
        return fail(source, TRACE_ERROR_MEMORY, "no memory for its events");
    while ((status = generate(source, kept->events + kept->n_events,
                              kept->capacity - kept->n_events, &n)) == TRACE_OK) {
        kept->n_events += n;
        if (kept->n_events == kept->capacity) /* never where there is room for all */
            kept->n_events = 0;
    }
    return status == TRACE_END ? TRACE_OK : status;
}

/* Learns the totals, then begins again. */
static int open_kept(struct source *source) {
    int is_whole;
    if (start_generating(source) != TRACE_OK || keep_events(source, &is_whole) != TRACE_OK)
        return source->status;
    note_totals(source);
    if (!is_whole) {
        drop_kept(source);
        return start_generating(source);
    }
    close_generator(source);
    return TRACE_OK;
}

static int open_streamed(struct source *source) {
    source->info = (struct trace_info){
        .version = PROFILE_VERSION,
        .n_threads = source->profile.n_threads,
        .page_bytes = source->profile.page_bytes,
        .n_events = source->profile.n_events,
        .duration_ns = source->profile.duration_ns,
        .is_complete = 1,
        .life = source->profile.life,
    };
    return start_generating(source);
}

static int read_kept(struct source *source, struct trace_event *events, size_t capacity,
                     size_t *n_read) {
    struct kept *kept = &source->kept;
    size_t n_left = kept->n_events - kept->next;
    *n_read = n_left < capacity ? n_left : capacity;
    memcpy(events, kept->events + kept->next, *n_read * sizeof *events);
    kept->next += *n_read;
    return *n_read > 0 ? TRACE_OK : TRACE_END;
}

/* ---- text ---- */

static int parse_profile(struct source *source, const char *text, size_t n_bytes) {
    char why[256];
    int status = profile_parse(text, n_bytes, &source->profile, why, sizeof why);
    if (status != TRACE_OK)
        return fail(source, status, why);
    return (source->is_streamed ? open_streamed : open_kept)(source);
}

static int parse_toml(struct source *source, const char *text, size_t n_bytes) {
    char why[256];
    size_t n_json = 0;
    char *json = toml_as_json(text, n_bytes, &n_json, why, sizeof why);
    if (json == NULL)
        return fail(source, TRACE_ERROR_FORMAT, why);
    int status = parse_profile(source, json, n_json);
    memory_unmap(json, n_json + 1);
    return status;
}

/* What a text looks like by its start. */
static enum kind recognise_text(const char *start, size_t n_bytes) {
    if (toml_recognise(start, n_bytes))
        return KIND_TOML;
    for (size_t i = 0; i < n_bytes; i++)
        if (!isspace((unsigned char)start[i]))
            return start[i] == '{' ? KIND_PROFILE : KIND_TRACE;
    return KIND_TRACE;
}

static int parse_text(struct source *source, const struct text *text) {
    enum kind kind = recognise_text(text->bytes, text->n_bytes);
    source->kind = kind == KIND_TOML ? KIND_PROFILE : kind;
    switch (kind) {
    case KIND_PROFILE:
        return parse_profile(source, text->bytes, text->n_bytes);
    case KIND_TOML:
        return parse_toml(source, text->bytes, text->n_bytes);
    default:
        return fail(source, TRACE_ERROR_FORMAT, "packed, but not a profile");
    }
}

static int open_text(struct source *source, int fd, size_t n_bytes) {
    struct text text;
    const char *why = NULL;
    int status = text_load(fd, n_bytes, PROFILE_MAX_BYTES, &text, &why);
    if (status != TRACE_OK)
        fail(source, status, why);
    else
        status = parse_text(source, &text);
    text_release(&text);
    return status;
}

/* ---- any ---- */

/* Whether the file is text, packed or not, and its size; else it is taken for a trace. */
static int is_text(int fd, size_t *n_bytes) {
    struct stat status;
    char start[4096];
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return 0;
    ssize_t n = pread(fd, start, sizeof start, 0);
    *n_bytes = (size_t)status.st_size;
    return n > 0 &&
           (text_is_packed(start, (size_t)n) || recognise_text(start, (size_t)n) != KIND_TRACE);
}

static int open_file(struct source *source, const char *path, int fd) {
    size_t n_bytes = 0;
    if (is_text(fd, &n_bytes))
        return open_text(source, fd, n_bytes);
    return trace_open(path, &source->reader, source->message, sizeof source->message);
}

static int open_source(const char *path, uint64_t seed, int is_streamed, struct source **source,
                       char *message, size_t message_bytes) {
    *source = NULL;
    struct source *new_source = memory_map(sizeof *new_source);
    if (new_source == NULL) {
        snprintf(message, message_bytes, "%s: no memory for the reader", path);
        return TRACE_ERROR_MEMORY;
    }
    new_source->seed = seed;
    new_source->is_streamed = is_streamed;
    snprintf(new_source->path, sizeof new_source->path, "%s", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int status = open_file(new_source, path, fd);
    snprintf(message, message_bytes, "%s", new_source->message);
    if (fd >= 0)
        close(fd);
    if (status != TRACE_OK) {
        source_close(new_source);
        return status;
    }
    *source = new_source;
    return TRACE_OK;
}

int source_open(const char *path, uint64_t seed, struct source **source, char *message,
                size_t message_bytes) {
    return open_source(path, seed, 0, source, message, message_bytes);
}

int source_stream(const char *path, uint64_t seed, struct source **source, char *message,
                  size_t message_bytes) {
    return open_source(path, seed, 1, source, message, message_bytes);
}

const char *source_level(const struct source *source) {
    return source->kind == KIND_PROFILE ? source->profile.level : "trace";
}

int source_is_low_fidelity(const struct source *source) {
    return source->kind == KIND_PROFILE && strcmp(source->profile.level, LEVEL_SITES) == 0;
}

void source_get_info(const struct source *source, struct trace_info *info) {
    if (source->reader != NULL)
        trace_get_info(source->reader, info);
    else
        *info = source->info;
}

const char *source_metadata(const struct source *source) {
    return source->reader != NULL ? trace_metadata(source->reader) : source->profile.metadata;
}

int source_read(struct source *source, struct trace_event *events, size_t capacity,
                size_t *n_read) {
    if (source->reader != NULL)
        return trace_read(source->reader, events, capacity, n_read);
    if (source->kept.events != NULL)
        return read_kept(source, events, capacity, n_read);
    *n_read = 0;
    return generate(source, events, capacity, n_read);
}

const char *source_message(const struct source *source) {
    return source->reader != NULL ? trace_message(source->reader) : source->message;
}

void source_close(struct source *source) {
    if (source == NULL)
        return;
    trace_close(source->reader);
    close_generator(source);
    drop_kept(source);
    profile_release(&source->profile);
    memory_unmap(source, sizeof *source);
}
