/* json.h - writes one JSON value to standard output, piece by piece.
 *
 * Numbers that are not finite and absent values become null, so that the reader never
 * sees NaN.  Names and texts are escaped as RFC 8259 section 7 wants.
 */
#ifndef RAND_MALLOC_JSON_H
#define RAND_MALLOC_JSON_H

#include <stdbool.h>
#include <stdint.h>

struct json {
    bool needs_comma;
};

struct json json_begin(void);
void json_end(struct json *json);
struct json json_begin_list(void);
void json_end_list(struct json *json);

/* An object or list as a member; name NULL inside a list. */
void json_open(struct json *json, const char *name);
void json_close(struct json *json);
void json_open_list(struct json *json, const char *name);
void json_close_list(struct json *json);

void json_text(struct json *json, const char *name, const char *text); /* NULL: null */
void json_integer(struct json *json, const char *name, uint64_t value);
void json_number(struct json *json, const char *name, double value);
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);

#endif
