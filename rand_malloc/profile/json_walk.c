/* json_walk.c - see json_walk.h. */
#include "json_walk.h"

#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS /* else closing brackets cost quadratic time */
#include <jsmn.h>

static const jsmntok_t *token_at(const struct walk *walk, uint32_t index) {
    return (const jsmntok_t *)walk->tokens + index;
}

void walk_fail(struct walk *walk, const char *format, ...) {
    if (walk->has_failed)
        return;
    uint32_t byte = walk->at < walk->n_tokens ? (uint32_t)token_at(walk, walk->at)->start : 0;
    int n = snprintf(walk->message, sizeof walk->message, "byte %u: ", byte);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(walk->message + n, sizeof walk->message - (size_t)n, format, arguments);
    va_end(arguments);
    walk->has_failed = 1;
}

static int no_json(struct walk *walk, const char *why) {
    snprintf(walk->message, sizeof walk->message, "%s", why);
    walk->has_failed = 1;
    return 0;
}

int walk_open(struct walk *walk, const char *text, size_t n_bytes) {
    jsmn_parser parser;
    *walk = (struct walk){.text = text};
    jsmn_init(&parser);
    int n = jsmn_parse(&parser, text, n_bytes, NULL, 0);
    if (n <= 0)
        return no_json(walk,
                       "not a malloc-tuner trace, and no profile: it is not JSON, or cut off");
    size_t bytes = (size_t)n * sizeof(jsmntok_t);
    jsmntok_t *tokens = memory_map(bytes);
    if (tokens == NULL)
        return no_json(walk, "no memory for its tokens");
    walk->tokens = tokens;
    walk->tokens_bytes = bytes;
    jsmn_init(&parser);
    if (jsmn_parse(&parser, text, n_bytes, tokens, (unsigned)n) != n)
        return no_json(walk,
                       "not a malloc-tuner trace, and no profile: it is not JSON, or cut off");
    walk->n_tokens = (uint32_t)n;
    return 1;
}

void walk_close(struct walk *walk) {
    memory_unmap((void *)(uintptr_t)walk->tokens, walk->tokens_bytes);
    walk->tokens = NULL;
}

/* The next token, which must be of the type; NULL after an error. */
static const jsmntok_t *take(struct walk *walk, jsmntype_t type, const char *wanted) {
    if (walk->has_failed)
        return NULL;
    if (walk->at >= walk->n_tokens || token_at(walk, walk->at)->type != type) {
        walk_fail(walk, "%s is missing", wanted);
        return NULL;
    }
    return token_at(walk, walk->at++);
}

uint32_t walk_enter_object(struct walk *walk) {
    const jsmntok_t *token = take(walk, JSMN_OBJECT, "an object");
    return token != NULL ? (uint32_t)token->size : 0;
}

uint32_t walk_enter_array(struct walk *walk) {
    const jsmntok_t *token = take(walk, JSMN_ARRAY, "an array");
    return token != NULL ? (uint32_t)token->size : 0;
}

uint32_t walk_peek_array(const struct walk *walk) {
    if (walk->has_failed || walk->at >= walk->n_tokens ||
        token_at(walk, walk->at)->type != JSMN_ARRAY)
        return 0;
    return (uint32_t)token_at(walk, walk->at)->size;
}

int walk_take_text(struct walk *walk, const char *text) {
    if (walk->has_failed || walk->at >= walk->n_tokens)
        return 0;
    const jsmntok_t *token = token_at(walk, walk->at);
    size_t length = (size_t)(token->end - token->start);
    if (token->type != JSMN_STRING || strlen(text) != length ||
        memcmp(walk->text + token->start, text, length) != 0)
        return 0;
    walk->at++;
    return 1;
}

int64_t walk_int(struct walk *walk, int64_t low, int64_t high) {
    const jsmntok_t *token = take(walk, JSMN_PRIMITIVE, "a number");
    if (token == NULL)
        return 0;
    const char *digit = walk->text + token->start;
    const char *end = walk->text + token->end;
    int is_negative = *digit == '-';
    int64_t value = 0;
    digit += is_negative;
    int is_good = digit < end && end - digit <= 18; /* far below 2^63 */
    for (; is_good && digit < end; digit++) {
        is_good = *digit >= '0' && *digit <= '9';
        value = 10 * value + (*digit - '0');
    }
    value = is_negative ? -value : value;
    if (is_good && value >= low && value <= high)
        return value;
    walk->at--; /* the message names its place */
    walk_fail(walk, "a whole number from %lld to %lld is wanted", (long long)low, (long long)high);
    return 0;
}

void walk_skip(struct walk *walk, size_t *begin, size_t *end) {
    *begin = *end = 0;
    if (walk->has_failed)
        return;
    if (walk->at >= walk->n_tokens) {
        walk_fail(walk, "a value is missing");
        return;
    }
    const jsmntok_t *token = token_at(walk, walk->at);
    *begin = (size_t)token->start;
    *end = (size_t)token->end;
    while (walk->at < walk->n_tokens && token_at(walk, walk->at)->start < token->end)
        walk->at++;
    if (token->end == token->start) /* an empty string has no inside */
        walk->at++;
}
