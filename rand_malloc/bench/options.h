/* options.h - the command line of malloc_bench. */
#ifndef RAND_MALLOC_BENCH_OPTIONS_H
#define RAND_MALLOC_BENCH_OPTIONS_H

#include "bench.h"

enum action {
    ACTION_RUN,
    ACTION_HELP,
    ACTION_VERSION
};

/* Returns EXIT_OK, or EXIT_USAGE after a message. */
int options_parse(int argc, char **argv, struct settings *settings, enum action *action);
void options_print_help(void);

#endif
