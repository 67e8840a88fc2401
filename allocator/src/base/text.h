/* text.h - build short texts in a caller's buffer, without printf or malloc.
 *
 * Writing past the end is not an error: `length` goes on counting, so the
 * caller learns how large a buffer the whole text needs (as snprintf does).
 * The text is always terminated when capacity > 0.
 */
#ifndef EXGEN_TEXT_H
#define EXGEN_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    char *buffer;    /* owned by the caller */
    size_t capacity; /* bytes of buffer, the final zero included */
    size_t length;   /* bytes of the whole text, even of what did not fit */
};

void text_string(struct text *t, const char *s);
void text_bytes(struct text *t, const char *s, size_t n);
void text_decimal(struct text *t, uint64_t n);
void text_hex(struct text *t, uint64_t n);

/* Write the text to standard error in one system call. */
void text_to_stderr(const struct text *t);

#endif
