/* environment.h - the environment of the replayer: fixed names, fixed size.
 *
 * Its size and the number of its strings shift the stack and cost instructions at
 * start-up, so both are padded to one value whatever the allocator and its settings.
 */
#ifndef RAND_MALLOC_ENVIRONMENT_H
#define RAND_MALLOC_ENVIRONMENT_H

#include "options.h"

#define ENVIRONMENT_STRINGS 64

struct environment {
    char *strings[ENVIRONMENT_STRINGS + 1]; /* NULL at the end; owned */
    int n_strings;
};

/* LD_PRELOAD is left out, but its room is kept, where a command sets it itself. */
void environment_build(const struct options *options, bool leaves_out_preload,
                       struct environment *environment);
void environment_release(struct environment *environment);

#endif
