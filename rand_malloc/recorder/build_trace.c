/* build_trace.c - turn the spool of a recorded process into a trace.
 *
 *   build_trace SPOOL TRACE [METADATA [END]]
 *                                   METADATA is a JSON object whose members go into the
 *                                   metadata of the trace; END is when the process ended,
 *                                   CLOCK_MONOTONIC in ns, for one that was killed
 *   build_trace --describe SPOOL    tell what process it is of
 *
 * Either prints one JSON object: the facts of the process, and with a trace its metadata and,
 * under "totals", what its header tells.  A forked child's trace begins with the history
 * of its parent, whose spool must be in the same folder.
 * Exit status: 0 good, 1 failed, 2 usage; messages on stderr as "program: what".
 */
#include "builder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MESSAGE_BYTES = 600,
    METADATA_BYTES = 1 << 20,
    MOST_ANCESTORS = 64,
    PATH_BYTES = 4608
};

static char message[MESSAGE_BYTES];

static int fail(const char *what) {
    fprintf(stderr, "build_trace: %s\n", what);
    return 1;
}

/* ---- JSON ---- */

struct text {
    char bytes[METADATA_BYTES];
    size_t n; /* without the NUL */
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text->bytes + text->n, sizeof text->bytes - text->n, format, arguments);
    va_end(arguments);
    if (n > 0 && text->n + (size_t)n < sizeof text->bytes)
        text->n += (size_t)n;
}

/* A JSON string.  Bytes above ASCII become lone surrogates U+DC80..U+DCFF, as
 * Python's file-system encoding does, so that any file name survives. */
static void put_string(struct text *text, const char *string, size_t n_bytes) {
    put(text, "\"");
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char byte = (unsigned char)string[i];
        if (byte >= 0x80)
            put(text, "\\udc%02x", byte);
        else if (byte < 0x20 || byte == '"' || byte == '\\')
            put(text, "\\u%04x", byte);
        else
            put(text, "%c", byte);
    }
    put(text, "\"");
}

/* The arguments of the process; a last one without its NUL was cut and is left out. */
static void put_command(struct text *text, const struct spool_header *header) {
    const char *at = header->command;
    const char *end = at + (header->n_command_bytes <= SPOOL_TEXT_BYTES ? header->n_command_bytes
                                                                        : SPOOL_TEXT_BYTES);
    const char *separator = "";
    put(text, "[");
    for (const char *nul; at < end && (nul = memchr(at, 0, (size_t)(end - at))) != NULL;
         at = nul + 1) {
        put(text, "%s", separator);
        put_string(text, at, (size_t)(nul - at));
        separator = ",";
    }
    put(text, "]");
}

static void put_process(struct text *text, const struct spool_header *header) {
    put(text, "\"pid\":%d,\"ppid\":%d,\"argv\":", header->pid, header->parent_pid);
    put_command(text, header);
    put(text, ",\"allocator\":");
    put_string(text, header->allocator, strnlen(header->allocator, SPOOL_TEXT_BYTES));
    put(text, ",\"is_fork\":%s", header->fork_stamp != 0 ? "true" : "false");
    put(text, ",\"start_clock_ns\":%" PRIu64, header->start_clock_ns);
    put(text, ",\"stopped\":");
    if (header->stop_stamp != 0)
        put_string(text, strerror(header->stop_errno), strlen(strerror(header->stop_errno)));
    else
        put(text, "null");
}

/* Members of the object `extra` follow our own; counts have a fixed width so that
 * the text can be replaced by the final one. */
static void put_metadata(struct text *text, const struct spool_header *header,
                         const struct builder_counts *counts, const char *extra) {
    text->n = 0;
    put(text, "{");
    put_process(text, header);
    put(text, ",\"foreign_frees\":%20" PRIu64 ",\"repaired_events\":%20" PRIu64,
        counts->foreign_frees, counts->repaired_events);
    const char *members = strchr(extra, '{');
    if (members != NULL && strchr(members, '"') != NULL)
        put(text, ",%s", members + 1);
    else
        put(text, "}");
}

/* ---- building ---- */

struct history {
    struct spool spools[MOST_ANCESTORS]; /* the process itself first, then its parents */
    size_t n_spools;
};

/* Opens the spool and those of its parents. */
static bool open_history(struct history *history, const char *path) {
    char name[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    int folder_bytes = slash == NULL ? 0 : (int)(slash + 1 - path);
    snprintf(name, sizeof name, "%s", path);
    while (history->n_spools < MOST_ANCESTORS) {
        struct spool *spool = &history->spools[history->n_spools];
        if (!spool_open(spool, name, message, sizeof message))
            return false;
        history->n_spools++;
        if (spool->header->fork_stamp == 0)
            return true;
        snprintf(name, sizeof name, "%.*s%.*s", folder_bytes, path, SPOOL_NAME_BYTES,
                 spool->header->parent_spool);
    }
    snprintf(message, sizeof message, "%.300s: more than %d ancestors", path, MOST_ANCESTORS);
    return false;
}

static int add_history(struct builder *builder, struct history *history) {
    uint32_t thread = 0;
    for (size_t i = history->n_spools; i-- > 0;) {
        struct spool *spool = &history->spools[i];
        const struct spool_header *child = i > 0 ? history->spools[i - 1].header : NULL;
        if (child != NULL)
            spool_limit(spool, child->fork_stamp);
        int status = builder_add(builder, spool, thread);
        if (status != TRACE_OK)
            return status;
        if (child != NULL)
            thread = builder_fork(builder, spool, child->fork_lane);
    }
    return builder_finish(builder);
}

/* Prints the metadata, and the totals as a reader of the trace finds them. */
static int print_result(const char *path, struct text *text) {
    struct trace_reader *reader;
    struct trace_info info;
    if (trace_open(path, &reader, message, sizeof message) != TRACE_OK)
        return fail(message);
    trace_get_info(reader, &info);
    trace_close(reader);
    text->n--; /* the brace that ends the metadata */
    put(text,
        ",\"totals\":{\"n_events\":%" PRIu64 ",\"n_threads\":%" PRIu32
        ",\"peak_live_bytes\":%" PRIu64 "}}",
        info.n_events, info.n_threads, info.peak_live_bytes);
    puts(text->bytes);
    return 0;
}

/* When the process ended; 0 if it is not known.  Where recording stopped, nothing is known of
 * what came later. */
static uint64_t end_of(const struct builder *builder, const struct spool_header *header,
                       uint64_t end_clock_ns) {
    if (header->stop_stamp != 0)
        return builder_time_ns(builder, header->stop_stamp);
    if (header->end_stamp != 0)
        return builder_time_ns(builder, header->end_stamp);
    if (end_clock_ns <= header->start_clock_ns)
        return 0;
    return builder_time_ns(builder, header->start_stamp) + end_clock_ns - header->start_clock_ns;
}

/* The life of the process itself; that of a fork begins with it, not with its parent. */
static struct trace_life life_of(const struct builder *builder, const struct history *history,
                                 uint64_t end_clock_ns) {
    const struct spool_header *header = history->spools[0].header;
    uint64_t last_ns = builder_time_ns(builder, builder->now_stamp);
    struct trace_life life = {
        .has_start =
            history->spools[history->n_spools - 1].header->life_ns != 0 || header->fork_stamp != 0,
        .end_ns = end_of(builder, header, end_clock_ns),
    };
    if (header->fork_stamp != 0)
        life.start_ns = builder_time_ns(builder, header->fork_stamp);
    life.has_end = life.end_ns != 0;
    if (life.has_end && life.end_ns < last_ns) /* something still freed in its last moments */
        life.end_ns = last_ns;
    return life;
}

static int write_trace(struct history *history, const char *path, const char *extra,
                       uint64_t end_clock_ns) {
    static struct builder builder;
    static struct text text;
    struct trace_writer *writer;
    const struct spool_header *header = history->spools[0].header;
    put_metadata(&text, header, &builder.counts, extra);
    if (trace_create(path, text.bytes, header->page_bytes, &writer, message, sizeof message) !=
        TRACE_OK)
        return fail(message);
    if (!builder_open(&builder, writer, &history->spools[history->n_spools - 1]))
        return fail("no memory");
    int status = add_history(&builder, history);
    put_metadata(&text, header, &builder.counts, extra);
    struct trace_life life = life_of(&builder, history, end_clock_ns);
    trace_set_life(writer, &life);
    if (status == TRACE_OK)
        status = trace_replace_metadata(writer, text.bytes);
    snprintf(message, sizeof message, "%s", trace_writer_message(writer));
    builder_close(&builder);
    if (status == TRACE_OK)
        status = trace_finish(writer);
    else
        trace_abandon(writer);
    if (status != TRACE_OK)
        return fail(message[0] != '\0' ? message : "cannot write the trace or no memory");
    return print_result(path, &text);
}

static int describe(const char *path) {
    static struct text text;
    struct spool spool;
    if (!spool_open(&spool, path, message, sizeof message))
        return fail(message);
    put(&text, "{");
    put_process(&text, spool.header);
    put(&text, "}");
    puts(text.bytes);
    return 0;
}

int main(int argc, char **argv) {
    static struct history history;
    if (argc == 3 && strcmp(argv[1], "--describe") == 0)
        return describe(argv[2]);
    if (argc < 3 || argc > 5) {
        fputs("usage: build_trace SPOOL TRACE [METADATA [END]] | --describe SPOOL\n", stderr);
        return 2;
    }
    if (!open_history(&history, argv[1]))
        return fail(message);
    return write_trace(&history, argv[2], argc > 3 ? argv[3] : "{}",
                       argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
}
