/* source.h - events of a file, whatever it is: a recorded trace, or a profile that they are
 * generated from.
 *
 * The functions are those of trace.h, and so are their guarantees: events obey its rules,
 * totals are exact from the start.  To learn its totals a profile is generated when it is
 * opened; its events are kept, up to 16 million, else generated again as they are read.
 */
#ifndef RAND_MALLOC_PROFILE_SOURCE_H
#define RAND_MALLOC_PROFILE_SOURCE_H

#include "trace.h"

struct source;

/* Opens a file of any kind; the seed is for what is generated, and the same seed gives the
 * same events. */
TRACE_EXPORT int source_open(const char *path, uint64_t seed, struct source **source, char *message,
                             size_t message_bytes);

/* The same for one pass: a profile is generated as it is read, nothing is kept.  Of its totals
 * only the events and threads are exact before the last event was read; slots and peaks are 0
 * until then, and the duration is the greatest it can be. */
TRACE_EXPORT int source_stream(const char *path, uint64_t seed, struct source **source,
                               char *message, size_t message_bytes);

/* What the events are: "trace", or the level a profile says it is of. */
TRACE_EXPORT const char *source_level(const struct source *source);

/* 1 for call-site profiles: models that know nothing of the order in which the program worked,
 * so that peaks are guesses. */
TRACE_EXPORT int source_is_low_fidelity(const struct source *source);

TRACE_EXPORT void source_get_info(const struct source *source, struct trace_info *info);
TRACE_EXPORT const char *source_metadata(const struct source *source);
TRACE_EXPORT int source_read(struct source *source, struct trace_event *events, size_t capacity,
                             size_t *n_read);
TRACE_EXPORT const char *source_message(const struct source *source);
TRACE_EXPORT void source_close(struct source *source);

#endif
