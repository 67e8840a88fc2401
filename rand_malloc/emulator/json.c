/* json.c - the writer; see json.h. */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

static void print_text(const char *text) {
    putchar('"');
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void begin_member(struct json *json, const char *name) {
    if (json->needs_comma)
        putchar(',');
    json->needs_comma = true;
    if (name != NULL) {
        print_text(name);
        putchar(':');
    }
}

struct json json_begin(void) {
    putchar('{');
    return (struct json){false};
}

void json_end(struct json *json) {
    (void)json;
    puts("}");
}

struct json json_begin_list(void) {
    putchar('[');
    return (struct json){false};
}

void json_end_list(struct json *json) {
    (void)json;
    puts("]");
}

void json_open(struct json *json, const char *name) {
    begin_member(json, name);
    putchar('{');
    json->needs_comma = false;
}

void json_close(struct json *json) {
    putchar('}');
    json->needs_comma = true;
}

void json_open_list(struct json *json, const char *name) {
    begin_member(json, name);
    putchar('[');
    json->needs_comma = false;
}

void json_close_list(struct json *json) {
    putchar(']');
    json->needs_comma = true;
}

void json_text(struct json *json, const char *name, const char *text) {
    if (text == NULL) {
        json_null(json, name);
        return;
    }
    begin_member(json, name);
    print_text(text);
}

void json_integer(struct json *json, const char *name, uint64_t value) {
    begin_member(json, name);
    printf("%" PRIu64, value);
}

void json_number(struct json *json, const char *name, double value) {
    if (!isfinite(value)) {
        json_null(json, name);
        return;
    }
    begin_member(json, name);
    printf("%.17g", value);
}

void json_bool(struct json *json, const char *name, bool value) {
    begin_member(json, name);
    fputs(value ? "true" : "false", stdout);
}

void json_null(struct json *json, const char *name) {
    begin_member(json, name);
    fputs("null", stdout);
}
