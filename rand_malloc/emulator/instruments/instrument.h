/* instrument.h - what every counter of user instructions offers.
 *
 * One row per instrument in INSTRUMENTS, best first.  An instrument either wraps the
 * replayer's command (a simulator) or counts inside the replayer (hardware counter).
 */
#ifndef RAND_MALLOC_INSTRUMENT_H
#define RAND_MALLOC_INSTRUMENT_H

#include "../run.h"

struct instructions {
    uint64_t allocator; /* outside of the emulator's own text, in the region */
    bool has_process;   /* false: not wanted */
    bool has_allocator; /* false: the instrument cannot separate them */
    uint64_t process;   /* whole process in the region, without waiting loops if possible */
};

struct instrument {
    const char *name;
    bool counts_in_replayer;
    /* The count includes start-up: an empty run is subtracted. */
    bool needs_empty_run;
    /* Fills the command prefix; false with the reason if it cannot work here.  Variant 0,
     * 1, ... are tried in turn until one starts; false with "" when there are no more. */
    bool (*wrap)(const struct options *options, int variant, struct command *prefix, char *reason,
                 unsigned reason_bytes);
    /* Reads the result after a run that ended well; false with the reason. */
    bool (*read)(const struct run *run, struct instructions *counted, char *reason,
                 unsigned reason_bytes);
};

extern const struct instrument PERF, QEMU, CACHEGRIND;

/* What a count run found. */
struct counted {
    struct instructions instructions;
    const char *instrument; /* its name */
    uint64_t checksum;
    uint64_t verified_blocks;
    char malloc_from[sizeof((struct outcome *)0)->malloc_from];
};

/* Counts the instructions of the workload with the best or the demanded instrument.
 * EXIT_OK, or a code with a message on stderr. */
int instrument_count(const struct options *options, const struct workload *workload,
                     struct counted *counted);

/* Tries each instrument on a tiny workload and prints the JSON list; up to the first that
 * works, if only the best is wanted. */
int instrument_print_all(const struct options *options, bool wants_best);

/* First executable of that name in the directories of PATH; false if there is none. */
bool instrument_find_program(const char *name, char *path, unsigned path_bytes);

#endif
