/* records.c - see records.h. */
#include "records.h"

#include "memory.h"
#include "trace.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INITIAL_RECORDS = 4096,
    LINE_BYTES = 256 /* of a record before its comment; longer lines hold none */
};

static const char NORDER[] = "#define norder";
static const double MOST_FIXED = 2147483646; /* rounds to what an int holds */
static const double MOST_MEAN = 1073741823;  /* twice as much can be drawn */

struct reading {
    struct classic_records *records;
    char *message;
    size_t message_bytes;
    uint64_t line;
    int64_t n_announced; /* -1: not yet */
    int status;          /* TRACE_OK, or what ended reading */
};

__attribute__((format(printf, 3, 4))) static int fail(struct reading *reading, int status,
                                                      const char *format, ...) {
    int n = snprintf(reading->message, reading->message_bytes,
                     "line %llu: ", (unsigned long long)reading->line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reading->message + n, reading->message_bytes - (size_t)n, format, arguments);
    va_end(arguments);
    reading->status = status;
    return 0;
}

static int bad(struct reading *reading, const char *why) {
    return fail(reading, TRACE_ERROR_FORMAT, "%s", why);
}

static const char *skip_blanks(const char *text) {
    while (*text == ' ' || *text == '\t')
        text++;
    return text;
}

static int begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- one record ---- */

/* A decimal number, then the delimiter; NULL if there is none. */
static const char *take_number(const char *text, char delimiter, double *value) {
    char *end = NULL;
    text = skip_blanks(text);
    if (!isdigit((unsigned char)*text) && *text != '.')
        return NULL;
    *value = strtod(text, &end);
    const char *after = skip_blanks(end);
    return end != text && *after == delimiter && isfinite(*value) ? after + 1 : NULL;
}

/* What makes the original stop or overflow is refused here. */
static const char *misfit(const struct classic_record *record) {
    double most_size = record->type == 3 ? MOST_MEAN : MOST_FIXED;
    double most_life = record->type == 1 ? MOST_FIXED : MOST_MEAN;
    if (record->size < (record->type == 3 ? 1.0 : 0.5) || record->size > most_size)
        return "a size that is not from 1 to 2^31 - 2 (a mean: to 2^30 - 1)";
    if (record->life > most_life || (record->type > 1 && record->life <= 0))
        return "a lifetime of more than 2^31 - 2 ticks (a mean: 2^30 - 1, and above 0)";
    return NULL;
}

static int grow(struct classic_records *records) {
    size_t capacity = records->capacity > 0 ? 2 * records->capacity : INITIAL_RECORDS;
    struct classic_record *grown =
        memory_grow(records->records, records->capacity * sizeof *grown, capacity * sizeof *grown);
    if (grown == NULL)
        return 0;
    records->records = grown;
    records->capacity = capacity;
    return 1;
}

static int take_record(struct reading *reading, const char *line) {
    struct classic_records *records = reading->records;
    struct classic_record record;
    double type;
    const char *at = take_number(line + 1, ',', &type);
    at = at != NULL ? take_number(at, ',', &record.size) : NULL;
    at = at != NULL ? take_number(at, '}', &record.life) : NULL;
    if (at == NULL || (type != 1 && type != 2 && type != 3))
        return bad(reading, "a record is {type, size, life}, with type 1, 2 or 3");
    record.type = (uint8_t)type;
    const char *why = misfit(&record);
    if (why != NULL)
        return bad(reading, why);
    if (records->n == CLASSIC_MAX_RECORDS)
        return bad(reading, "more than 10000000 records");
    if (records->n == records->capacity && !grow(records))
        return fail(reading, TRACE_ERROR_MEMORY, "no memory for its records");
    records->records[records->n++] = record;
    return 1;
}

/* ---- lines ---- */

static int take_norder(struct reading *reading, const char *text) {
    char *end = NULL;
    text = skip_blanks(text);
    reading->n_announced = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;
    if (reading->n_announced < 1 || reading->n_announced > CLASSIC_MAX_RECORDS)
        return bad(reading, "norder is not a number from 1 to 10000000");
    return 1;
}

/* The C that the records are embedded in. */
static int is_dressing(const char *line) {
    static const char *const STARTS[] = {"//", "const struct", "int ", "double ", "}"};
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++)
        if (begins(line, STARTS[i]))
            return 1;
    return *line == '\0';
}

static int take_line(struct reading *reading, const char *line) {
    line = skip_blanks(line);
    if (*line == '{')
        return take_record(reading, line);
    if (begins(line, NORDER))
        return take_norder(reading, line + sizeof NORDER - 1);
    if (is_dressing(line))
        return 1;
    return bad(reading, "neither a record {type, size, life}, nor a comment, nor what "
                        "dhat_summary.awk writes around them");
}

static void take_lines(struct reading *reading, const char *text, size_t n_bytes) {
    const char *end = text + n_bytes;
    while (text < end && reading->status == TRACE_OK) {
        char line[LINE_BYTES];
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop != NULL ? stop : end;
        size_t length =
            (size_t)(stop - text) < sizeof line ? (size_t)(stop - text) : sizeof line - 1;
        memcpy(line, text, length);
        line[length] = '\0';
        if (length > 0 && line[length - 1] == '\r')
            line[length - 1] = '\0';
        reading->line++;
        take_line(reading, line);
        text = stop + 1;
    }
}

int records_recognise(const char *start, size_t n_bytes) {
    char text[LINE_BYTES] = "";
    memcpy(text, start, n_bytes < sizeof text - 1 ? n_bytes : sizeof text - 1);
    const char *at = text;
    while (isspace((unsigned char)*at))
        at++;
    return begins(at, "//") || begins(at, NORDER);
}

int records_parse(const char *text, size_t n_bytes, struct classic_records *records, char *message,
                  size_t message_bytes) {
    struct reading reading = {
        .records = records, .message = message, .message_bytes = message_bytes, .n_announced = -1};
    *records = (struct classic_records){.n = 0};
    take_lines(&reading, text, n_bytes);
    if (reading.status == TRACE_OK && records->n == 0)
        bad(&reading, "no records {type, size, life}; not a trace, profile or classic records");
    if (reading.status == TRACE_OK && reading.n_announced >= 0 &&
        reading.n_announced != (int64_t)records->n)
        fail(&reading, TRACE_ERROR_FORMAT, "ends after %u of the %lld records of norder; cut off?",
             records->n, (long long)reading.n_announced);
    if (reading.status != TRACE_OK)
        records_release(records);
    return reading.status;
}

void records_release(struct classic_records *records) {
    memory_unmap(records->records, records->capacity * sizeof *records->records);
    *records = (struct classic_records){.n = 0};
}
