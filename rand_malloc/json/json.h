/* json.h - writes one JSON value (RFC 8259) to a descriptor or into memory, piece by piece.
 *
 * Nothing here allocates, so that a process whose heap is measured can print.  Numbers that
 * are not finite and absent texts become null: the reader never sees NaN.  Texts are UTF-8; a
 * byte that is not becomes the lone surrogate U+DC80..U+DCFF, as in Python's file-system
 * encoding, so that any file name survives.
 */
#ifndef RAND_MALLOC_JSON_H
#define RAND_MALLOC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *bytes;
    size_t capacity;
    size_t length; /* bytes not written to fd yet */
    int fd;        /* -1: all stays in bytes */
    bool needs_comma;
    bool has_failed; /* a write failed (errno says why), or bytes were too few */
};

/* A writer to a descriptor; they share one buffer, so one at a time. */
struct json json_to(int fd);

/* A writer into memory of the caller, without a NUL. */
struct json json_in(char *bytes, size_t capacity);

/* Ends the line and writes the rest; false if anything failed, with errno. */
bool json_finish(struct json *json);

/* An object or list; name NULL inside a list and for the outermost one. */
void json_open(struct json *json, const char *name);
void json_close(struct json *json);
void json_open_list(struct json *json, const char *name);
void json_close_list(struct json *json);

void json_text(struct json *json, const char *name, const char *text); /* NULL: null */
void json_bytes(struct json *json, const char *name, const char *text, size_t n_bytes);
void json_integer(struct json *json, const char *name, uint64_t value);
void json_signed(struct json *json, const char *name, int64_t value);
void json_number(struct json *json, const char *name, double value);
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);
/* A value that is JSON already. */
void json_verbatim(struct json *json, const char *name, const char *value);
/* Members that are JSON already, at least one. */
void json_members(struct json *json, const char *members, size_t n_bytes);

#endif
