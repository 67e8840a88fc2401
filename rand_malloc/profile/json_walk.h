/* json_walk.h - a walk over JSON text, value by value, with errors that name the place.
 *
 * jsmn splits the text into a list of tokens, once; the walk goes along the list: the
 * reader says what it expects next and gets it, converted.  Only whole numbers can be read
 * as values, and strings are compared as they are written, escapes and all.
 *
 * jsmn does not look at commas and colons, nor at what is behind the first byte of a
 * number or word: the walk does.  Two things that JSON (RFC 8259) forbids pass all the
 * same: control characters in strings, and of numbers that are skipped, forms such as 01
 * and 4+.  Brackets in brackets cost jsmn time that is quadratic in their depth.
 *
 * After the first error every further call is harmless and returns 0, so callers check
 * `has_failed` once per object.
 */
#ifndef RAND_MALLOC_PROFILE_JSON_WALK_H
#define RAND_MALLOC_PROFILE_JSON_WALK_H

#include <stddef.h>
#include <stdint.h>

struct walk {
    const char *text;
    size_t n_bytes;
    const void *tokens; /* jsmntok_t[n_tokens + 1] in memory of their own; the last one is none */
    size_t tokens_bytes;
    int n_tokens;
    int next;     /* token that is read next; n_tokens: none */
    int open;     /* token of the innermost object or array that was entered; -1: none */
    int at;       /* byte: of what is next, or behind what was read last */
    int is_first; /* nothing was read yet of the array or object that was entered last */
    int has_failed;
    char message[200]; /* of the first error */
};

/* Stands before the first value; the text must outlive the walk, and text[n_bytes] be NUL. */
void walk_open(struct walk *walk, const char *text, size_t n_bytes);

/* Gives the tokens back, after an error too; the message stays. */
void walk_close(struct walk *walk);

__attribute__((format(printf, 2, 3))) void walk_fail(struct walk *walk, const char *format, ...);

/* Steps inside the object or array that is next. */
void walk_enter_object(struct walk *walk);
void walk_enter_array(struct walk *walk);

/* Is there another member (a key and its value) of the object, another element of the
 * array?  If not, steps out of it. */
int walk_has_member(struct walk *walk);
int walk_has_element(struct walk *walk);

/* Is an array next? */
int walk_is_array(const struct walk *walk);

/* Is the next member of this key?  If so the key is passed. */
int walk_take_key(struct walk *walk, const char *key);

/* Is the next value this string?  If so it is passed. */
int walk_take_text(struct walk *walk, const char *text);

/* A whole number from low to high, which is less than INT64_MAX. */
int64_t walk_int(struct walk *walk, int64_t low, int64_t high);

/* Passes the next value, whatever it is, and returns where its text is; of a string, what is
 * between its quotes. */
void walk_skip(struct walk *walk, const char **begin, size_t *n_bytes);

/* Nothing but blanks may be behind the last value. */
void walk_finish(struct walk *walk);

#endif
