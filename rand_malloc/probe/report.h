/* report.h - build one JSON object in static memory, print it with one write.
 *
 * Nothing here allocates: the allocator under observation must see only the
 * allocations the probe makes on purpose.
 */
#ifndef PROBE_REPORT_H
#define PROBE_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Open an object as the value of a key; NULL for the outermost one. */
void report_open(const char *key);
void report_close(void);

void report_integer(const char *key, long long value);
void report_unsigned(const char *key, unsigned long long value);
void report_number(const char *key, double value);
void report_boolean(const char *key, bool value);
void report_null(const char *key);
void report_text(const char *key, const char *value);
/* A value that is JSON already. */
void report_json(const char *key, const char *json);
void report_sizes(const char *key, const size_t *values, size_t n_values);

/* Write the report to standard output; returns 0, or -1 if it does not fit or cannot be written. */
int report_write(void);

#endif
