/* kept.h - a decoded workload in a file, for the next rand_malloc that replays the same.
 *
 * Decoding a trace takes as long as replaying it a few times.  A file holds the plan, as the
 * replayer maps it, and behind it what the supervisor keeps; its last bytes say which trace,
 * seed and layout it is of, and are written last.
 *
 * Guarantee: a file that is empty, cut off or of another workload is written anew, unless somebody
 * replays what is in it: then it stays, and the workload is decoded for this replay alone.  That it
 * is no other file the caller has made sure of.
 * Limits: processes that share a file agree by flock(2), which network file systems may lack.
 */
#ifndef RAND_MALLOC_KEPT_H
#define RAND_MALLOC_KEPT_H

#include "workload.h"

/* Takes the workload of these arguments (as of workload_load) from the file, or decodes the
 * trace and keeps it there; 0, or an exit code of options.h with a message on stderr. */
int kept_load(const char *file, const char *trace, uint64_t seed, uint64_t most_events,
              struct workload *workload);

#endif
