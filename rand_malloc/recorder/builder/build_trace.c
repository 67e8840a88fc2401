/* build_trace.c - turn the spool of a recorded process into a trace.
 *
 *   build_trace SPOOL TRACE [METADATA [END [FROM [UNTIL]]]]
 *                                   METADATA is a JSON object whose members go into the
 *                                   metadata of the trace; END is when the process ended, for
 *                                   one that was killed; FROM and UNTIL are the window that the
 *                                   trace is of.  All are CLOCK_MONOTONIC in ns, 0: not known
 *                                   or no limit
 *   build_trace --describe SPOOL    print which process it is of
 *   build_trace --control FOLDER BYTES
 *                                   prepare the folder of a recording that may be ended, and
 *                                   takes no more bytes than that (0: no limit)
 *   build_trace --window FOLDER     count that recording's bytes anew; prints whether it is over
 *   build_trace --over FOLDER       end that recording; prints whether it was over before
 *
 * Either prints one JSON object: the facts of the process, and with a trace its metadata and,
 * under "totals", those of its header.  A trace of a window, and one of a forked child, begins
 * with the blocks that live then; for those of a child the spools of its parents must be in the
 * same folder, of which the nearest 63 count.  Where nothing happened in the window the trace has
 * no events.
 * Exit status: 0 good, 1 failed, 2 usage; messages on stderr as "program: what".
 */
#include "builder/builder.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MESSAGE_BYTES = 600,
    METADATA_BYTES = 1 << 20,
    MOST_SPOOLS = 64, /* open at once */
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

/* What the process called itself last, words separated by blanks; null: not known. */
static void put_title(struct json *json, const struct spool_header *header) {
    char title[SPOOL_TITLE_BYTES];
    size_t n_bytes = header->n_title_bytes <= sizeof title ? header->n_title_bytes : 0;
    memcpy(title, header->title, n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        if (title[i] == '\0')
            title[i] = ' ';
    while (n_bytes > 0 && title[n_bytes - 1] == ' ')
        n_bytes--;
    json_bytes(json, "title", title, n_bytes);
}

static void put_process(struct json *json, const struct spool_header *header, bool is_cut) {
    json_signed(json, "pid", header->pid);
    json_signed(json, "ppid", header->parent_pid);
    put_command(json, header);
    json_bytes(json, "allocator", header->allocator, strnlen(header->allocator, SPOOL_TEXT_BYTES));
    json_bool(json, "is_fork", header->fork_stamp != 0);
    json_integer(json, "start_clock_ns", header->start_clock_ns);
    bool is_broken = header->stop_stamp != 0 && header->stop_errno != 0;
    json_text(json, "stopped", is_broken ? strerror(header->stop_errno) : NULL);
    json_bool(json, "is_cut", is_cut || (header->stop_stamp != 0 && !is_broken));
    put_title(json, header);
}

/* A fixed width, so that the text can be replaced by the final one. */
static void put_count(struct json *json, const char *name, uint64_t count) {
    char text[24];
    snprintf(text, sizeof text, "%20" PRIu64, count);
    json_verbatim(json, name, text);
}

static void put_facts(struct json *json, const struct spool_header *header,
                      const struct builder_counts *counts, bool is_cut) {
    put_process(json, header, is_cut);
    put_count(json, "foreign_frees", counts->foreign_frees);
    put_count(json, "repaired_events", counts->repaired_events);
    put_count(json, "inherited_blocks", counts->inherited_blocks);
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
                                  const struct builder_counts *counts, bool is_cut,
                                  const char *extra) {
    static char bytes[METADATA_BYTES];
    struct json json = json_in(bytes, sizeof bytes - 1);
    json_open(&json, NULL);
    put_facts(&json, header, counts, is_cut);
    put_extra(&json, extra);
    json_close(&json);
    bytes[json.length] = '\0';
    return json.has_failed ? NULL : bytes;
}

/* ---- building ---- */

struct history {
    struct spool spools[MOST_SPOOLS]; /* the process itself first, then its parents */
    size_t n_spools;
};

/* Opens the spool and those of its parents.  Where there are more, the history begins with the
 * oldest opened: what its parent had allocated is foreign. */
static bool open_history(struct history *history, const char *path) {
    char name[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    int folder_bytes = slash == NULL ? 0 : (int)(slash + 1 - path);
    snprintf(name, sizeof name, "%s", path);
    while (history->n_spools < MOST_SPOOLS) {
        struct spool *spool = &history->spools[history->n_spools];
        if (!spool_open(spool, name, message, sizeof message))
            return false;
        history->n_spools++;
        if (spool->header->fork_stamp == 0)
            return true;
        snprintf(name, sizeof name, "%.*s%.*s", folder_bytes, path, SPOOL_NAME_BYTES,
                 spool->header->parent_spool);
    }
    return true;
}

/* The part of a recording that a trace is of, CLOCK_MONOTONIC in ns; 0: no limit. */
struct window {
    uint64_t from_ns;
    uint64_t until_ns;
};

static uint64_t stamp_at(const struct builder *builder, const struct spool_header *header,
                         uint64_t clock_ns) {
    double since_ns = (double)clock_ns - (double)header->start_clock_ns;
    double stamp = (double)header->start_stamp + since_ns / builder->ns_per_stamp;
    return stamp > 0.0 ? (uint64_t)stamp : 0;
}

static void limit_to(struct builder *builder, struct history *history,
                     const struct window *window) {
    struct spool *spool = &history->spools[0];
    const struct spool_header *header = spool->header;
    uint64_t from_stamp = header->fork_stamp;
    if (window->until_ns != 0)
        spool_limit(spool, stamp_at(builder, header, window->until_ns));
    if (window->from_ns != 0 && stamp_at(builder, header, window->from_ns) > from_stamp)
        from_stamp = stamp_at(builder, header, window->from_ns);
    if (from_stamp != 0)
        builder_begin_at(builder, from_stamp);
}

static int add_history(struct builder *builder, struct history *history,
                       const struct window *window) {
    uint32_t thread = 0;
    if (history->n_spools > 1 || window->from_ns != 0)
        builder_be_quiet(builder);
    for (size_t i = history->n_spools; i-- > 0;) {
        struct spool *spool = &history->spools[i];
        const struct spool_header *child = i > 0 ? history->spools[i - 1].header : NULL;
        if (child != NULL)
            spool_limit(spool, child->fork_stamp);
        else
            limit_to(builder, history, window);
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
                        const struct builder_counts *counts, bool is_cut, const char *extra) {
    struct trace_reader *reader;
    struct trace_info info;
    if (trace_open(path, &reader, message, sizeof message) != TRACE_OK)
        return fail(message);
    trace_get_info(reader, &info);
    trace_close(reader);
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    put_facts(&json, header, counts, is_cut);
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

/* Whether the process went on behind the window, as far as is known, be it without an event by
 * which its recorder would have seen the end. */
static bool outlives(const struct builder *builder, const struct spool_header *header,
                     uint64_t end_clock_ns, const struct window *window) {
    uint64_t end_ns = end_of(builder, header, end_clock_ns);
    return window->until_ns != 0 &&
           (end_ns == 0 ||
            end_ns > builder_time_ns(builder, stamp_at(builder, header, window->until_ns)));
}

/* The life of the process, as far as it is in the window; that of a fork begins with it. */
static struct trace_life life_of(const struct builder *builder, const struct history *history,
                                 uint64_t end_clock_ns, const struct window *window) {
    const struct spool_header *header = history->spools[0].header;
    uint64_t last_ns = builder_time_ns(builder, builder->now_stamp);
    struct trace_life life = {
        .has_start = header->life_ns != 0 || header->fork_stamp != 0 || window->from_ns != 0,
        .end_ns = end_of(builder, header, end_clock_ns),
    };
    if (window->until_ns != 0 && life.end_ns != 0) {
        uint64_t until_ns = builder_time_ns(builder, stamp_at(builder, header, window->until_ns));
        life.end_ns = life.end_ns < until_ns ? life.end_ns : until_ns;
    }
    life.has_end = life.end_ns != 0;
    if (life.has_end && life.end_ns < last_ns) /* something still freed in its last moments */
        life.end_ns = last_ns;
    return life;
}

static int write_trace(struct history *history, const char *path, const char *extra,
                       uint64_t end_clock_ns, const struct window *window) {
    static struct builder builder;
    struct trace_writer *writer;
    const struct spool_header *header = history->spools[0].header;
    const char *metadata = write_metadata(header, &builder.counts, false, extra);
    if (metadata == NULL)
        return fail("METADATA is too long");
    if (trace_create(path, metadata, header->page_bytes, &writer, message, sizeof message) !=
        TRACE_OK)
        return fail(message);
    if (!builder_open(&builder, writer, &history->spools[history->n_spools - 1]))
        return fail("no memory");
    int status = add_history(&builder, history, window);
    if (!builder.is_quiet) { /* else nothing happened */
        struct trace_life life = life_of(&builder, history, end_clock_ns, window);
        trace_set_life(writer, &life);
    }
    bool is_cut = outlives(&builder, header, end_clock_ns, window);
    if (status == TRACE_OK)
        status =
            trace_replace_metadata(writer, write_metadata(header, &builder.counts, is_cut, extra));
    snprintf(message, sizeof message, "%s", trace_writer_message(writer));
    builder_close(&builder);
    if (status != TRACE_OK)
        trace_abandon(writer);
    else if ((status = trace_finish(writer)) == TRACE_ERROR_WRITE)
        snprintf(message, sizeof message, "%.300s: cannot write: %s", path, strerror(errno));
    if (status != TRACE_OK)
        return fail(message[0] != '\0' ? message : builder_message(status));
    return print_result(path, header, &builder.counts, is_cut, extra);
}

static int describe(const char *path) {
    struct spool spool;
    if (!spool_open(&spool, path, message, sizeof message))
        return fail(message);
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    put_process(&json, spool.header, false);
    json_integer(&json, "born_ticks", spool.header->born_ticks);
    json_close(&json);
    return json_finish(&json) ? 0 : fail("standard output: cannot be written");
}

/* ---- recordings that may be ended ---- */

static int open_control(const char *folder, int flags) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.4000s/" SPOOL_CONTROL, folder);
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        snprintf(message, sizeof message, "%.300s: %s", path, strerror(errno));
    return fd;
}

static int make_control(const char *folder, uint64_t most_bytes) {
    struct spool_control control = {
        .most_strides = most_bytes != 0 ? most_bytes / SPOOL_STRIDE_BYTES : UINT64_MAX};
    int fd = open_control(folder, O_CREAT | O_EXCL);
    if (fd < 0)
        return fail(message);
    fchmod(fd, 0666); /* a process that has become another user counts, too */
    bool is_good = write(fd, &control, sizeof control) == sizeof control;
    if (!is_good)
        snprintf(message, sizeof message, "%.300s: cannot write: %s", folder, strerror(errno));
    close(fd);
    return is_good ? 0 : fail(message);
}

/* Prints the one fact, unless what was to be done with the control failed. */
static int print_control(bool is_good, const char *name, bool fact) {
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    json_bool(&json, name, fact);
    json_close(&json);
    return is_good && json_finish(&json) ? 0 : fail("cannot write the spool");
}

static int end_recording(const char *folder) {
    struct spool_control control;
    const uint32_t is_over = 1;
    int fd = open_control(folder, 0);
    if (fd < 0)
        return fail(message);
    bool is_good = pread(fd, &control, sizeof control, 0) == sizeof control &&
                   pwrite(fd, &is_over, sizeof is_over, offsetof(struct spool_control, is_over)) ==
                       sizeof is_over;
    close(fd);
    return print_control(is_good, "was_over", is_good && control.is_over != 0);
}

/* What is recorded from now on may take as much as what was before. */
static int begin_window(const char *folder) {
    struct spool_control control;
    const uint64_t none = 0;
    int fd = open_control(folder, 0);
    if (fd < 0)
        return fail(message);
    bool is_good =
        pread(fd, &control, sizeof control, 0) == sizeof control &&
        pwrite(fd, &none, sizeof none, offsetof(struct spool_control, n_strides)) == sizeof none;
    close(fd);
    return print_control(is_good, "is_over", is_good && control.is_over != 0);
}

static uint64_t number_of(int argc, char **argv, int at) {
    return argc > at ? strtoull(argv[at], NULL, 10) : 0;
}

int main(int argc, char **argv) {
    enum {
        SPOOL = 1,
        TRACE,
        METADATA,
        END,
        FROM,
        UNTIL
    };
    static struct history history;
    signal(SIGXFSZ, SIG_IGN); /* beyond `ulimit -f` writing is an error, as on a full disk */
    if (argc == 3 && strcmp(argv[1], "--describe") == 0)
        return describe(argv[2]);
    if (argc == 4 && strcmp(argv[1], "--control") == 0)
        return make_control(argv[2], number_of(argc, argv, 3));
    if (argc == 3 && strcmp(argv[1], "--window") == 0)
        return begin_window(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--over") == 0)
        return end_recording(argv[2]);
    if (argc <= TRACE || argc > UNTIL + 1) {
        fputs("usage: build_trace SPOOL TRACE [METADATA [END [FROM [UNTIL]]]] | --describe SPOOL | "
              "--control FOLDER BYTES | --window FOLDER | --over FOLDER\n",
              stderr);
        return 2;
    }
    struct window window = {number_of(argc, argv, FROM), number_of(argc, argv, UNTIL)};
    if (!open_history(&history, argv[SPOOL]))
        return fail(message);
    return write_trace(&history, argv[TRACE], argc > METADATA ? argv[METADATA] : "{}",
                       number_of(argc, argv, END), &window);
}
