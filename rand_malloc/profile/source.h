/* source.h - events of a file, whatever it is: a recorded trace, or a profile that is
 * generated from.
 *
 * The functions are those of trace.h, and so are their guarantees: events obey its rules,
 * totals are exact from the start.  A profile is generated twice: once to learn its
 * totals, then as it is read.
 */
#ifndef RAND_MALLOC_PROFILE_SOURCE_H
#define RAND_MALLOC_PROFILE_SOURCE_H

#include "trace.h"

struct source;

/* Opens a trace or a profile; the seed is for profiles, and the same seed gives the same
 * events. */
TRACE_EXPORT int source_open(const char *path, uint64_t seed, struct source **source, char *message,
                             size_t message_bytes);

/* 1 for a profile, 0 for a trace. */
TRACE_EXPORT int source_is_profile(const struct source *source);

TRACE_EXPORT void source_get_info(const struct source *source, struct trace_info *info);
TRACE_EXPORT const char *source_metadata(const struct source *source);
TRACE_EXPORT int source_read(struct source *source, struct trace_event *events, size_t capacity,
                             size_t *n_read);
TRACE_EXPORT const char *source_message(const struct source *source);
TRACE_EXPORT void source_close(struct source *source);

#endif
