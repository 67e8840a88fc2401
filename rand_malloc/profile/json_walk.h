/* json_walk.h - a walk over JSON text, value by value, with errors that name the place.
 *
 * The reader says what it expects next and gets it, converted, in one pass without a tree
 * or a list of tokens: what a profile costs to read is little more than its digits.  The
 * text must be JSON (RFC 8259); only whole numbers can be read as values, and strings are
 * compared as they are written, escapes and all.
 *
 * After the first error every further call is harmless and returns 0, so callers check
 * `has_failed` once per object.  The walk stands before an empty text then: no quick path
 * needs to ask.
 */
#ifndef RAND_MALLOC_PROFILE_JSON_WALK_H
#define RAND_MALLOC_PROFILE_JSON_WALK_H

#include <stddef.h>
#include <stdint.h>

enum {
    WALK_QUICK_DIGITS = 17 /* far below 2^63 */
};

struct walk {
    const char *text;
    const char *at; /* what is read next; blanks before it are passed; there is a NUL at the end */
    const char *end;
    int is_first; /* nothing was read yet of the array or object that was entered last */
    int has_failed;
    char message[200]; /* of the first error */
};

/* Stands before the first value; the text must outlive the walk, and text[n_bytes] be NUL. */
void walk_open(struct walk *walk, const char *text, size_t n_bytes);

__attribute__((format(printf, 2, 3))) void walk_fail(struct walk *walk, const char *format, ...);

/* Steps inside the object or array that is next. */
void walk_enter_object(struct walk *walk);
void walk_enter_array(struct walk *walk);

/* Is there another member (a key and its value) of the object, another element of the
 * array?  If not, steps out of it. */
int walk_has_member(struct walk *walk);
int walk_has_element_behind(struct walk *walk); /* whatever is next */

static inline int walk_has_element(struct walk *walk) {
    if (*walk->at != ',' || walk->is_first || walk->at[1] <= ' ')
        return walk_has_element_behind(walk);
    walk->at++;
    return 1;
}

/* Is an array next? */
int walk_is_array(const struct walk *walk);

/* Is the next member of this key?  If so the key is passed. */
int walk_take_key(struct walk *walk, const char *key);

/* Is the next value this string?  If so it is passed. */
int walk_take_text(struct walk *walk, const char *text);

/* A whole number from low to high. */
int64_t walk_any_int(struct walk *walk, int64_t low, int64_t high); /* whatever is next */

static inline int64_t walk_int(struct walk *walk, int64_t low, int64_t high) {
    const char *at = walk->at;
    int64_t value = 0;
    int is_negative = *at == '-';
    const char *first = at += is_negative;
    for (; *at >= '0' && *at <= '9' && at - first < WALK_QUICK_DIGITS; at++)
        value = 10 * value + (*at - '0');
    value = is_negative ? -value : value;
    int is_odd = at == first || (*first == '0' && at - first > 1);
    if ((*at != ',' && *at != ']') || is_odd || value < low || value > high)
        return walk_any_int(walk, low, high);
    walk->at = at;
    return value;
}

/* Passes the next value, whatever it is, and tells where its text is; of a string, what is
 * between its quotes. */
void walk_skip(struct walk *walk, const char **begin, size_t *n_bytes);

/* Nothing but blanks may be behind the last value. */
void walk_finish(struct walk *walk);

#endif
