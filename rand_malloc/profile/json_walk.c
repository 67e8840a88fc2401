/* json_walk.c - see json_walk.h.
 *
 * The list has room for the most tokens a text of n bytes can have, so that one pass makes
 * it; its pages are touched only as they fill.  With the byte that ends or parts them,
 * tokens take two bytes at least, but for the last one in brackets, which take two
 * themselves: tokens <= (n + 1) / 2.
 */
#include "json_walk.h"

#include "memory.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS /* else closing brackets cost quadratic time */
#include <jsmn.h>

/* Behind the last token; in nothing, so never the next element of anything. */
static const jsmntok_t NO_TOKEN = {.type = JSMN_UNDEFINED, .parent = -2};

static const jsmntok_t *token_at(const struct walk *walk, int index) {
    return (const jsmntok_t *)walk->tokens + index;
}

static const jsmntok_t *next_token(const struct walk *walk) {
    return token_at(walk, walk->next);
}

void walk_fail(struct walk *walk, const char *format, ...) {
    if (walk->has_failed)
        return;
    int n = snprintf(walk->message, sizeof walk->message, "byte %d: ", walk->at);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(walk->message + n, sizeof walk->message - (size_t)n, format, arguments);
    va_end(arguments);
    walk->has_failed = 1;
    walk->next = walk->n_tokens;
}

static int no_json(struct walk *walk) {
    walk_fail(walk, "not a malloc-tuner trace, and no profile: it is not JSON, or cut off");
    return 0;
}

/* ---- the text between tokens ---- */

static int first_byte(const jsmntok_t *token) {
    return token->start - (token->type == JSMN_STRING); /* its quote */
}

static int byte_behind(const jsmntok_t *token) {
    return token->end + (token->type == JSMN_STRING);
}

/* Passes what lies before the byte `end`: blanks, and the separator once, unless it is 0. */
static int pass_gap(struct walk *walk, int end, char separator) {
    int is_missing = separator != '\0';
    for (; walk->at < end; walk->at++) {
        char byte = walk->text[walk->at];
        if (is_missing && byte == separator)
            is_missing = 0;
        else if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t')
            return no_json(walk);
    }
    return !is_missing || no_json(walk);
}

/* Passes the next token whole; what is in it, if there is something, is next. */
static void pass_token(struct walk *walk) {
    walk->at = byte_behind(next_token(walk));
    walk->next++;
}

/* ---- the whole ---- */

static void split(struct walk *walk) {
    int most = (int)(walk->n_bytes / 2 + 1);
    size_t bytes = ((size_t)most + 1) * sizeof(jsmntok_t);
    jsmntok_t *tokens = memory_map(bytes);
    if (tokens == NULL) {
        walk_fail(walk, "no memory for its tokens");
        return;
    }
    jsmn_parser parser;
    jsmn_init(&parser);
    int n = jsmn_parse(&parser, walk->text, walk->n_bytes, tokens, (unsigned)most);
    walk->n_tokens = n > 0 ? n : 0;
    tokens[walk->n_tokens] = NO_TOKEN;
    walk->tokens = tokens;
    walk->tokens_bytes = bytes;
    walk->at = n > 0 ? 0 : (int)parser.pos;
    if (n <= 0) /* too many tokens: some bracket is never closed */
        no_json(walk);
}

void walk_open(struct walk *walk, const char *text, size_t n_bytes) {
    *walk = (struct walk){.text = text, .n_bytes = n_bytes, .tokens = &NO_TOKEN, .open = -1};
    if (n_bytes >= INT_MAX)
        walk_fail(walk, "a text of 2 GiB or more");
    else
        split(walk);
    if (!walk->has_failed)
        pass_gap(walk, first_byte(next_token(walk)), '\0');
}

void walk_close(struct walk *walk) {
    if (walk->tokens_bytes > 0)
        memory_unmap((void *)(uintptr_t)walk->tokens, walk->tokens_bytes);
    walk->tokens = NULL;
    walk->tokens_bytes = 0;
}

void walk_finish(struct walk *walk) {
    if (walk->has_failed)
        return;
    if (walk->next < walk->n_tokens)
        no_json(walk);
    else
        pass_gap(walk, (int)walk->n_bytes, '\0');
}

/* ---- objects and arrays ---- */

static void enter(struct walk *walk) {
    walk->open = walk->next;
    walk->at = next_token(walk)->start + 1;
    walk->next++;
    walk->is_first = 1;
}

static void enter_wanted(struct walk *walk, jsmntype_t type, const char *wanted) {
    if (next_token(walk)->type == type)
        enter(walk);
    else
        walk_fail(walk, "%s is missing", wanted);
}

void walk_enter_object(struct walk *walk) {
    enter_wanted(walk, JSMN_OBJECT, "an object");
}

void walk_enter_array(struct walk *walk) {
    enter_wanted(walk, JSMN_ARRAY, "an array");
}

/* The object or array that the open one is in, perhaps as the value of a key. */
static int find_outer(const struct walk *walk) {
    int outer = token_at(walk, walk->open)->parent;
    if (outer >= 0 && token_at(walk, outer)->type == JSMN_STRING)
        outer = token_at(walk, outer)->parent;
    return outer;
}

/* Is there more before the bracket? */
static int has_more(struct walk *walk) {
    const jsmntok_t *next = next_token(walk);
    if (walk->has_failed)
        return 0;
    int is_first = walk->is_first;
    walk->is_first = 0;
    if (next->parent == walk->open)
        return pass_gap(walk, first_byte(next), is_first ? '\0' : ',');
    int end = token_at(walk, walk->open)->end;
    if (!pass_gap(walk, end - 1, '\0'))
        return 0;
    walk->at = end;
    walk->open = find_outer(walk);
    return 0;
}

int walk_has_member(struct walk *walk) {
    return has_more(walk);
}

int walk_has_element(struct walk *walk) {
    return has_more(walk);
}

int walk_is_array(const struct walk *walk) {
    return next_token(walk)->type == JSMN_ARRAY;
}

/* ---- values ---- */

static int is_text(const struct walk *walk, const char *text) {
    const jsmntok_t *token = next_token(walk);
    size_t length = strlen(text);
    return token->type == JSMN_STRING && (size_t)(token->end - token->start) == length &&
           memcmp(walk->text + token->start, text, length) == 0;
}

int walk_take_text(struct walk *walk, const char *text) {
    if (!is_text(walk, text))
        return 0;
    pass_token(walk);
    return 1;
}

static int pass_key(struct walk *walk) {
    int key = walk->next;
    pass_token(walk);
    if (next_token(walk)->parent != key) /* it has no value */
        return no_json(walk);
    return pass_gap(walk, first_byte(next_token(walk)), ':');
}

int walk_take_key(struct walk *walk, const char *key) {
    return is_text(walk, key) && pass_key(walk);
}

static int is_number(const struct walk *walk, const jsmntok_t *token) {
    char first = walk->text[token->start];
    return token->type == JSMN_PRIMITIVE && (first == '-' || (first >= '0' && first <= '9'));
}

/* A zero leads more digits, which strtoll does not mind. */
static int has_leading_zero(const char *begin, const char *end) {
    begin += *begin == '-';
    return *begin == '0' && end - begin > 1;
}

int64_t walk_int(struct walk *walk, int64_t low, int64_t high) {
    const jsmntok_t *token = next_token(walk);
    if (walk->has_failed)
        return 0;
    if (!is_number(walk, token)) {
        walk_fail(walk, "a number is missing");
        return 0;
    }
    const char *begin = walk->text + token->start;
    char *end;
    int64_t value = strtoll(begin, &end, 10); /* too large ones saturate, beyond any high */
    if (end != walk->text + token->end || has_leading_zero(begin, end) || value < low ||
        value > high) {
        walk_fail(walk, "a whole number from %lld to %lld is wanted", (long long)low,
                  (long long)high);
        return 0;
    }
    pass_token(walk);
    return value;
}

/* ---- values that are passed over ---- */

static int is_word(const char *begin, size_t length, const char *word) {
    return length == strlen(word) && memcmp(begin, word, length) == 0;
}

/* A string, a word of JSON, or what consists of what numbers do. */
static int is_scalar(const struct walk *walk, const jsmntok_t *token) {
    const char *begin = walk->text + token->start;
    size_t length = (size_t)(token->end - token->start);
    if (token->type == JSMN_STRING)
        return 1;
    if (is_number(walk, token))
        return strspn(begin, "0123456789+-.eE") == length;
    return is_word(begin, length, "true") || is_word(begin, length, "false") ||
           is_word(begin, length, "null");
}

static void pass_begin(struct walk *walk) {
    const jsmntok_t *token = next_token(walk);
    if (token->type == JSMN_OBJECT || token->type == JSMN_ARRAY)
        enter(walk);
    else if (is_scalar(walk, token))
        pass_token(walk);
    else
        no_json(walk);
}

/* Steps out of all that ends here, up to the outer one, and to the next value if that has
 * not ended. */
static void pass_to_value(struct walk *walk, int outer) {
    while (walk->open != outer && !has_more(walk) && !walk->has_failed)
        ;
    if (!walk->has_failed && walk->open != outer && token_at(walk, walk->open)->type == JSMN_OBJECT)
        pass_key(walk);
}

void walk_skip(struct walk *walk, const char **begin, size_t *n_bytes) {
    const jsmntok_t *token = next_token(walk);
    int outer = walk->open;
    *begin = "";
    *n_bytes = 0;
    if (walk->has_failed)
        return;
    do {
        pass_begin(walk);
        pass_to_value(walk, outer);
    } while (walk->open != outer && !walk->has_failed);
    if (walk->has_failed)
        return;
    *begin = walk->text + token->start;
    *n_bytes = (size_t)(token->end - token->start);
}
