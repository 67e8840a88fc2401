/* text.h - the whole text of a file, unpacked where it is packed with zstd.
 *
 * Profiles are text; the shipped ones are packed, at a tenth of the size.
 * Only one frame that says how much it holds is read: that is what `zstd` writes of a file.
 */
#ifndef MALLOC_TUNER_PROFILE_TEXT_H
#define MALLOC_TUNER_PROFILE_TEXT_H

#include <stddef.h>

struct text {
    char *bytes; /* ends with NUL; NULL: none */
    size_t n_bytes;
};

/* Whether the first bytes of a file are those of a zstd frame (RFC 8878, section 3.1.1). */
int text_is_packed(const char *start, size_t n_bytes);

/* Reads the regular file of file_bytes bytes.  TRACE_OK, or another status with the reason as a
 * phrase: more than most_bytes of text, damaged, unreadable or no memory. */
int text_load(int fd, size_t file_bytes, size_t most_bytes, struct text *text, const char **why);

/* Gives the memory back; also of a text that was not loaded. */
void text_release(struct text *text);

#endif
