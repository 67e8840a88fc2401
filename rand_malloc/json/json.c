/* json.c - the writer; see json.h. */
#include "json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- bytes ---- */

static void flush(struct json *json) {
    for (size_t done = 0; done < json->length && !json->has_failed;) {
        ssize_t n = write(json->fd, json->bytes + done, json->length - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            json->has_failed = true;
    }
    json->length = 0;
}

static void put(struct json *json, const char *bytes, size_t n_bytes) {
    while (n_bytes > 0 && !json->has_failed) {
        size_t room = json->capacity - json->length;
        size_t n = n_bytes < room ? n_bytes : room;
        memcpy(json->bytes + json->length, bytes, n);
        json->length += n;
        bytes += n;
        n_bytes -= n;
        if (n_bytes > 0 && json->fd >= 0) {
            flush(json);
        } else if (n_bytes > 0) {
            json->has_failed = true;
            errno = ENOSPC;
        }
    }
}

__attribute__((format(printf, 2, 3))) static void print(struct json *json, const char *format,
                                                        ...) {
    char text[40]; /* the longest number has 24 characters */
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(json, text, n > 0 ? (size_t)n : 0);
}

struct json json_to(int fd) {
    static char buffer[1 << 16];
    return (struct json){.bytes = buffer, .capacity = sizeof buffer, .fd = fd};
}

struct json json_in(char *bytes, size_t capacity) {
    return (struct json){.bytes = bytes, .capacity = capacity, .fd = -1};
}

bool json_finish(struct json *json) {
    put(json, "\n", 1);
    if (json->fd >= 0)
        flush(json);
    return !json->has_failed;
}

/* ---- texts ---- */

/* Bytes of the UTF-8 sequence at the begin (RFC 3629, section 4), or 0. */
static size_t sequence_bytes(const unsigned char *text, size_t n_bytes) {
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || n > n_bytes)
        return 0;
    uint32_t point = text[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (text[i] & 0x3f);
    }
    return point >= LEAST[n] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff) ? n : 0;
}

static void put_quoted(struct json *json, const char *text, size_t n_bytes) {
    put(json, "\"", 1);
    for (size_t i = 0; i < n_bytes;) {
        unsigned char byte = (unsigned char)text[i];
        size_t n = byte < 0x80 ? 1 : sequence_bytes((const unsigned char *)text + i, n_bytes - i);
        if (n == 0)
            print(json, "\\udc%02x", byte);
        else if (byte < 0x20 || byte == '"' || byte == '\\')
            print(json, "\\u%04x", byte);
        else
            put(json, text + i, n);
        i += n > 0 ? n : 1;
    }
    put(json, "\"", 1);
}

/* ---- values ---- */

static void begin_value(struct json *json, const char *name) {
    if (json->needs_comma)
        put(json, ",", 1);
    json->needs_comma = true;
    if (name != NULL) {
        put_quoted(json, name, strlen(name));
        put(json, ":", 1);
    }
}

static void open_value(struct json *json, const char *name, const char *bracket) {
    begin_value(json, name);
    put(json, bracket, 1);
    json->needs_comma = false;
}

static void close_value(struct json *json, const char *bracket) {
    put(json, bracket, 1);
    json->needs_comma = true;
}

void json_open(struct json *json, const char *name) {
    open_value(json, name, "{");
}

void json_close(struct json *json) {
    close_value(json, "}");
}

void json_open_list(struct json *json, const char *name) {
    open_value(json, name, "[");
}

void json_close_list(struct json *json) {
    close_value(json, "]");
}

void json_verbatim(struct json *json, const char *name, const char *value) {
    begin_value(json, name);
    put(json, value, strlen(value));
}

void json_members(struct json *json, const char *members, size_t n_bytes) {
    begin_value(json, NULL);
    put(json, members, n_bytes);
}

void json_bytes(struct json *json, const char *name, const char *text, size_t n_bytes) {
    begin_value(json, name);
    put_quoted(json, text, n_bytes);
}

void json_text(struct json *json, const char *name, const char *text) {
    if (text == NULL)
        json_null(json, name);
    else
        json_bytes(json, name, text, strlen(text));
}

void json_integer(struct json *json, const char *name, uint64_t value) {
    begin_value(json, name);
    print(json, "%" PRIu64, value);
}

void json_signed(struct json *json, const char *name, int64_t value) {
    begin_value(json, name);
    print(json, "%" PRId64, value);
}

void json_number(struct json *json, const char *name, double value) {
    if (!isfinite(value)) {
        json_null(json, name);
        return;
    }
    begin_value(json, name);
    print(json, "%.17g", value);
}

void json_bool(struct json *json, const char *name, bool value) {
    json_verbatim(json, name, value ? "true" : "false");
}

void json_null(struct json *json, const char *name) {
    json_verbatim(json, name, "null");
}
