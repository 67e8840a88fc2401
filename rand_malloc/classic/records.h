/* records.h - the records of Langdon's rand_malloc, as a table.
 *
 * A record is a block to be: type, size, lifetime in ticks.  The text is what his
 * dhat_summary.awk writes to be compiled in: one `{type, size, life},` a line, with comments
 * from `//` on and the C around it (`#define norder`, `const struct{`, ...).
 *
 *   type 1   size and lifetime as they are, rounded
 *   type 2   size as it is; lifetime drawn around the mean
 *   type 3   both drawn around their means
 *
 * Guarantees: memory by mmap only; hostile text gives a message, never a crash; in an
 * accepted table every size is or will be drawn as at least 1, and no number leaves the
 * 31 bits that the original has for it.
 */
#ifndef RAND_MALLOC_CLASSIC_RECORDS_H
#define RAND_MALLOC_CLASSIC_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#define CLASSIC_MAX_RECORDS 10000000u /* as many blocks as the original has room for */

struct classic_record {
    double size; /* bytes */
    double life; /* ticks */
    uint8_t type;
};

struct classic_records {
    struct classic_record *records;
    uint32_t n;
    size_t capacity;
};

/* Does a file that starts so hold such records? */
int records_recognise(const char *start, size_t n_bytes);

/* Reads the text, which needs no NUL.  0, or a trace_status with a sentence in message. */
int records_parse(const char *text, size_t n_bytes, struct classic_records *records, char *message,
                  size_t message_bytes);

void records_release(struct classic_records *records);

#endif
