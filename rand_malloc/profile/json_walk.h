/* json_walk.h - a walk over JSON text, token by token, with errors that name the place.
 *
 * The tokens are jsmn's; this adds typed reading.  After the first error every further
 * call is harmless and returns 0, so callers check `walk_failed` once per object.
 */
#ifndef RAND_MALLOC_PROFILE_JSON_WALK_H
#define RAND_MALLOC_PROFILE_JSON_WALK_H

#include <stddef.h>
#include <stdint.h>

struct walk {
    const char *text;
    const void *tokens; /* jsmntok_t[n_tokens] */
    size_t tokens_bytes;
    uint32_t n_tokens;
    uint32_t at; /* the token to be read next */
    int has_failed;
    char message[200]; /* of the first error */
};

/* Splits the text; false with a message if it is no JSON or memory is short. */
int walk_open(struct walk *walk, const char *text, size_t n_bytes);
void walk_close(struct walk *walk);

__attribute__((format(printf, 2, 3))) void walk_fail(struct walk *walk, const char *format, ...);

/* Number of members of the object or array that is next; steps inside. */
uint32_t walk_enter_object(struct walk *walk);
uint32_t walk_enter_array(struct walk *walk);

/* Members of the array that is next, without stepping inside. */
uint32_t walk_peek_array(const struct walk *walk);

/* Is the next token this key or string?  If so it is passed. */
int walk_take_text(struct walk *walk, const char *text);

/* A whole number from low to high. */
int64_t walk_int(struct walk *walk, int64_t low, int64_t high);

/* Passes the next value, whatever it is, and tells its text. */
void walk_skip(struct walk *walk, size_t *begin, size_t *end);

#endif
