/* json_walk.c - see json_walk.h. */
#include "json_walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_DEPTH = 64,      /* of values that are skipped */
    MOST_INT_LENGTH = 18, /* digits and sign: far below 2^63 */
};

static const char NOTHING[] = "";

void walk_fail(struct walk *walk, const char *format, ...) {
    if (walk->has_failed)
        return;
    size_t byte = (size_t)(walk->at - walk->text);
    int n = snprintf(walk->message, sizeof walk->message, "byte %zu: ", byte);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(walk->message + n, sizeof walk->message - (size_t)n, format, arguments);
    va_end(arguments);
    walk->has_failed = 1;
    walk->at = walk->end = NOTHING;
}

static void no_json(struct walk *walk) {
    walk_fail(walk, "not a malloc-tuner trace, and no profile: it is not JSON, or cut off");
}

static int is_blank(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static int is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static void pass_blanks(struct walk *walk) {
    while (walk->at < walk->end && is_blank(*walk->at))
        walk->at++;
}

/* Passes the byte if it is next, and the blanks behind it. */
static int take_byte(struct walk *walk, char byte) {
    if (walk->at >= walk->end || *walk->at != byte)
        return 0;
    walk->at++;
    pass_blanks(walk);
    return 1;
}

void walk_open(struct walk *walk, const char *text, size_t n_bytes) {
    *walk = (struct walk){.text = text, .at = text, .end = text + n_bytes};
    pass_blanks(walk);
}

/* ---- objects and arrays ---- */

static void enter(struct walk *walk, char bracket, const char *wanted) {
    if (walk->has_failed)
        return;
    if (walk->at == walk->end)
        no_json(walk);
    else if (!take_byte(walk, bracket))
        walk_fail(walk, "%s is missing", wanted);
    walk->is_first = 1;
}

void walk_enter_object(struct walk *walk) {
    enter(walk, '{', "an object");
}

void walk_enter_array(struct walk *walk) {
    enter(walk, '[', "an array");
}

/* Is there more before the bracket? */
static int has_more(struct walk *walk, char bracket) {
    if (walk->has_failed)
        return 0;
    int is_first = walk->is_first;
    walk->is_first = 0;
    if (take_byte(walk, bracket))
        return 0;
    if (!is_first && !take_byte(walk, ','))
        no_json(walk);
    return !walk->has_failed;
}

int walk_has_member(struct walk *walk) {
    if (!has_more(walk, '}'))
        return 0;
    if (walk->at == walk->end || *walk->at != '"')
        no_json(walk);
    return !walk->has_failed;
}

int walk_has_element_behind(struct walk *walk) {
    return has_more(walk, ']');
}

int walk_is_array(const struct walk *walk) {
    return !walk->has_failed && walk->at < walk->end && *walk->at == '[';
}

/* ---- values ---- */

int walk_take_text(struct walk *walk, const char *text) {
    size_t length = strlen(text);
    const char *at = walk->at;
    if (walk->has_failed || (size_t)(walk->end - at) < length + 2 || *at != '"' ||
        memcmp(at + 1, text, length) != 0 || at[1 + length] != '"')
        return 0;
    walk->at += length + 2;
    pass_blanks(walk);
    return 1;
}

int walk_take_key(struct walk *walk, const char *key) {
    if (!walk_take_text(walk, key))
        return 0;
    if (!take_byte(walk, ':'))
        no_json(walk);
    return !walk->has_failed;
}

/* What is next is no number, or none that is wanted. */
static int64_t refuse_int(struct walk *walk, int64_t low, int64_t high) {
    if (walk->at == walk->end)
        no_json(walk);
    else if (*walk->at != '-' && !is_digit(*walk->at))
        walk_fail(walk, "a number is missing");
    else
        walk_fail(walk, "a whole number from %lld to %lld is wanted", (long long)low,
                  (long long)high);
    return 0;
}

/* May a number end before this byte? */
static int is_behind_value(const struct walk *walk, const char *at) {
    return at == walk->end || *at == ',' || *at == ']' || *at == '}' || is_blank(*at);
}

int64_t walk_any_int(struct walk *walk, int64_t low, int64_t high) {
    if (walk->has_failed)
        return 0;
    const char *at = walk->at;
    int is_negative = at < walk->end && *at == '-';
    const char *first = at + is_negative;
    const char *most = walk->end - at > MOST_INT_LENGTH ? at + MOST_INT_LENGTH : walk->end;
    int64_t value = 0;
    for (at = first; at < most && is_digit(*at); at++)
        value = 10 * value + (*at - '0');
    int has_leading_zero = at - first > 1 && *first == '0';
    value = is_negative ? -value : value;
    if (at == first || has_leading_zero || !is_behind_value(walk, at) || value < low ||
        value > high)
        return refuse_int(walk, low, high);
    walk->at = at;
    pass_blanks(walk);
    return value;
}

/* ---- values that are passed over ---- */

/* Four hexadecimal digits. */
static int pass_code_point(struct walk *walk) {
    for (int i = 0; i < 4; i++, walk->at++)
        if (walk->at == walk->end ||
            !(is_digit(*walk->at) || (*walk->at >= 'a' && *walk->at <= 'f') ||
              (*walk->at >= 'A' && *walk->at <= 'F')))
            return 0;
    return 1;
}

/* A string, up to behind its second quote. */
static int pass_string(struct walk *walk) {
    for (walk->at++; walk->at < walk->end && (unsigned char)*walk->at >= ' ';) {
        char byte = *walk->at++;
        if (byte == '"')
            return 1;
        if (byte != '\\')
            continue;
        if (walk->at == walk->end || *walk->at == '\0' || strchr("\"\\/bfnrtu", *walk->at) == NULL)
            return 0;
        if (*walk->at++ == 'u' && !pass_code_point(walk))
            return 0;
    }
    return 0;
}

static int pass_digits(struct walk *walk) {
    const char *first = walk->at;
    while (walk->at < walk->end && is_digit(*walk->at))
        walk->at++;
    return walk->at > first;
}

/* A byte of the two, if it is next. */
static int pass_either(struct walk *walk, char one, char other) {
    int is_there = walk->at < walk->end && (*walk->at == one || *walk->at == other);
    walk->at += is_there;
    return is_there;
}

static int pass_number(struct walk *walk) {
    pass_either(walk, '-', '-');
    const char *first = walk->at;
    if (!pass_digits(walk) || (walk->at - first > 1 && *first == '0'))
        return 0;
    if (pass_either(walk, '.', '.') && !pass_digits(walk))
        return 0;
    if (!pass_either(walk, 'e', 'E'))
        return 1;
    pass_either(walk, '+', '-');
    return pass_digits(walk);
}

static int pass_word(struct walk *walk, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(walk->end - walk->at) < length || memcmp(walk->at, word, length) != 0)
        return 0;
    walk->at += length;
    return 1;
}

static int pass_scalar(struct walk *walk) {
    switch (walk->at < walk->end ? *walk->at : '\0') {
    case '"':
        return pass_string(walk);
    case 't':
        return pass_word(walk, "true");
    case 'f':
        return pass_word(walk, "false");
    case 'n':
        return pass_word(walk, "null");
    default:
        return pass_number(walk);
    }
}

/* The key of a member and its colon. */
static int pass_key(struct walk *walk) {
    if (walk->at == walk->end || *walk->at != '"' || !pass_string(walk))
        return 0;
    pass_blanks(walk);
    return take_byte(walk, ':');
}

/* Any value; what it is in is `depth` deep. */
static int pass_value(struct walk *walk, int depth) { /* NOLINT(misc-no-recursion): bounded */
    char bracket = *walk->at;                         /* NUL at the end */
    if (bracket != '{' && bracket != '[') {
        int is_good = pass_scalar(walk);
        pass_blanks(walk);
        return is_good;
    }
    if (depth == MOST_DEPTH)
        return 0;
    take_byte(walk, bracket);
    walk->is_first = 1;
    while (has_more(walk, bracket == '{' ? '}' : ']'))
        if ((bracket == '{' && !pass_key(walk)) || !pass_value(walk, depth + 1))
            return 0;
    return !walk->has_failed;
}

void walk_skip(struct walk *walk, const char **begin, size_t *n_bytes) {
    const char *first = walk->at;
    *begin = first;
    *n_bytes = 0;
    if (walk->has_failed)
        return;
    if (!pass_value(walk, 0)) {
        no_json(walk);
        return;
    }
    const char *last = walk->at;
    while (is_blank(last[-1]))
        last--;
    int is_string = *first == '"';
    *begin = first + is_string;
    *n_bytes = (size_t)(last - first) - (is_string ? 2 : 0);
}

void walk_finish(struct walk *walk) {
    if (!walk->has_failed && walk->at != walk->end)
        no_json(walk);
}
