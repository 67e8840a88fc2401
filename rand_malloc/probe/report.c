/* report.c - see report.h. */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    char text[1 << 16]; /* the object so far */
    size_t length;      /* bytes used; above sizeof text once it does not fit */
    bool needs_comma;   /* a member was written into the innermost object */
} report;

__attribute__((format(printf, 1, 2))) static void append(const char *format, ...) {
    if (report.length >= sizeof report.text) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(report.text + report.length, sizeof report.text - report.length,
                                  format, arguments);
    va_end(arguments);
    report.length += written < 0 ? sizeof report.text : (size_t)written;
}

static void append_quoted(const char *text) {
    append("\"");
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            append("\\%c", c);
        } else if (c < 0x20) {
            append("\\u%04x", c);
        } else {
            append("%c", c);
        }
    }
    append("\"");
}

static void begin_member(const char *key) {
    if (report.needs_comma) {
        append(",");
    }
    report.needs_comma = true;
    if (key) {
        append_quoted(key);
        append(":");
    }
}

void report_open(const char *key) {
    begin_member(key);
    append("{");
    report.needs_comma = false;
}

void report_close(void) {
    append("}");
    report.needs_comma = true;
}

void report_integer(const char *key, long long value) {
    begin_member(key);
    append("%lld", value);
}

void report_unsigned(const char *key, unsigned long long value) {
    begin_member(key);
    append("%llu", value);
}

void report_number(const char *key, double value) {
    begin_member(key);
    append(isfinite(value) ? "%.17g" : "\"%g\"", value); /* JSON has no infinity */
}

void report_boolean(const char *key, bool value) {
    begin_member(key);
    append("%s", value ? "true" : "false");
}

void report_null(const char *key) {
    begin_member(key);
    append("null");
}

void report_text(const char *key, const char *value) {
    if (!value) {
        report_null(key);
        return;
    }
    begin_member(key);
    append_quoted(value);
}

void report_json(const char *key, const char *json) {
    begin_member(key);
    append("%s", json);
}

void report_sizes(const char *key, const size_t *values, size_t n_values) {
    begin_member(key);
    append("[");
    for (size_t i = 0; i < n_values; i++) {
        append(i ? ",%zu" : "%zu", values[i]);
    }
    append("]");
}

int report_write(void) {
    append("\n");
    if (report.length >= sizeof report.text) {
        return -1;
    }
    for (size_t done = 0; done < report.length;) {
        const ssize_t n = write(STDOUT_FILENO, report.text + done, report.length - done);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}
