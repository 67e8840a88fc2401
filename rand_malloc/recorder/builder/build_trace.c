/* build_trace.c - turn the spool of a recorded process into a trace.
 *
 *   build_trace SPOOL TRACE [METADATA [END]]
 *                                   METADATA is a JSON object whose members go into the
 *                                   metadata of the trace; END is when the process ended,
 *                                   CLOCK_MONOTONIC in ns, for one that was killed
 *   build_trace --describe SPOOL    print which process it is of
 *
 * Either prints one JSON object: the facts of the process, and with a trace its metadata and,
 * under "totals", those of its header.  A forked child's trace begins with the history
 * of its parent, whose spool must be in the same folder.
 * Exit status: 0 good, 1 failed, 2 usage; messages on stderr as "program: what".
 */
#include "builder/builder.h"
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- metadata ---- */

/* The arguments of the process; a last one without its NUL was cut and is left out. */
static void put_command(struct json *json, const struct spool_header *header) {
    const char *at = header->command;
    const char *end = at + (header->n_command_bytes <= SPOOL_TEXT_BYTES ? header->n_command_bytes
                                                                        : SPOOL_TEXT_BYTES);
    json_open_list(json, "argv");
    for (const char *nul; at < end && (nul = memchr(at, 0, (size_t)(end - at))) != NULL;
         at = nul + 1)
        json_text(json, NULL, at);
    json_close_list(json);
}

static void put_process(struct json *json, const struct spool_header *header) {
    json_signed(json, "pid", header->pid);
    json_signed(json, "ppid", header->parent_pid);
    put_command(json, header);
    json_bytes(json, "allocator", header->allocator, strnlen(header->allocator, SPOOL_TEXT_BYTES));
    json_bool(json, "is_fork", header->fork_stamp != 0);
    json_integer(json, "start_clock_ns", header->start_clock_ns);
    json_text(json, "stopped", header->stop_stamp != 0 ? strerror(header->stop_errno) : NULL);
}

/* A fixed width, so that the text can be replaced by the final one. */
static void put_count(struct json *json, const char *name, uint64_t count) {
    char text[24];
    snprintf(text, sizeof text, "%20" PRIu64, count);
    json_verbatim(json, name, text);
}

static void put_facts(struct json *json, const struct spool_header *header,
                      const struct builder_counts *counts) {
    put_process(json, header);
    put_count(json, "foreign_frees", counts->foreign_frees);
    put_count(json, "repaired_events", counts->repaired_events);
}

/* Members of the object `extra` follow our own. */
static void put_extra(struct json *json, const char *extra) {
    const char *begin = strchr(extra, '{');
    const char *end = strrchr(extra, '}');
    if (begin != NULL && end != NULL && strchr(begin, '"') != NULL)
        json_members(json, begin + 1, (size_t)(end - begin - 1));
}

/* The metadata of the trace, with a NUL behind it; NULL if it is longer than METADATA_BYTES. */
static const char *write_metadata(const struct spool_header *header,
                                  const struct builder_counts *counts, const char *extra) {
    static char bytes[METADATA_BYTES];
    struct json json = json_in(bytes, sizeof bytes - 1);
    json_open(&json, NULL);
    put_facts(&json, header, counts);
    put_extra(&json, extra);
    json_close(&json);
    bytes[json.length] = '\0';
    return json.has_failed ? NULL : bytes;
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
static int print_result(const char *path, const struct spool_header *header,
                        const struct builder_counts *counts, const char *extra) {
    struct trace_reader *reader;
    struct trace_info info;
    if (trace_open(path, &reader, message, sizeof message) != TRACE_OK)
        return fail(message);
    trace_get_info(reader, &info);
    trace_close(reader);
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    put_facts(&json, header, counts);
    put_extra(&json, extra);
    json_open(&json, "totals");
    json_integer(&json, "n_events", info.n_events);
    json_integer(&json, "n_threads", info.n_threads);
    json_integer(&json, "peak_live_bytes", info.peak_live_bytes);
    json_close(&json);
    json_close(&json);
    return json_finish(&json) ? 0 : fail("standard output: cannot be written");
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
    struct trace_writer *writer;
    const struct spool_header *header = history->spools[0].header;
    const char *metadata = write_metadata(header, &builder.counts, extra);
    if (metadata == NULL)
        return fail("METADATA is too long");
    if (trace_create(path, metadata, header->page_bytes, &writer, message, sizeof message) !=
        TRACE_OK)
        return fail(message);
    if (!builder_open(&builder, writer, &history->spools[history->n_spools - 1]))
        return fail("no memory");
    int status = add_history(&builder, history);
    struct trace_life life = life_of(&builder, history, end_clock_ns);
    trace_set_life(writer, &life);
    if (status == TRACE_OK)
        status = trace_replace_metadata(writer, write_metadata(header, &builder.counts, extra));
    snprintf(message, sizeof message, "%s", trace_writer_message(writer));
    builder_close(&builder);
    if (status == TRACE_OK)
        status = trace_finish(writer);
    else
        trace_abandon(writer);
    if (status != TRACE_OK)
        return fail(message[0] != '\0' ? message : "cannot write the trace or no memory");
    return print_result(path, header, &builder.counts, extra);
}

static int describe(const char *path) {
    struct spool spool;
    if (!spool_open(&spool, path, message, sizeof message))
        return fail(message);
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    put_process(&json, spool.header);
    json_close(&json);
    return json_finish(&json) ? 0 : fail("standard output: cannot be written");
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
