/* child.h - run a scenario in a forked child with its own EXGEN_CONF.
 *
 * exgen reads its settings once for each process, so a test of settings or of fatal
 * mistakes must not touch the allocator itself and leaves that to children.
 */
#ifndef EXGEN_CHILD_H
#define EXGEN_CHILD_H

#include <stdint.h>

/* What a child left behind. */
struct outcome {
    int status;         /* as from waitpid */
    uint64_t value;     /* what the scenario returned, if it did */
    char expected[256]; /* what the scenario wrote with expect_message */
    char output[8192];  /* what it wrote to stderr, terminated */
};

typedef uint64_t (*scenario)(void);

struct outcome run_in_child(scenario run, const char *conf);

/* The same of one that has to end well: what it returned. */
uint64_t run_well(scenario run, const char *conf);

/* In the child: the message that must appear on stderr if it dies now. */
void expect_message(const char *what, const void *address);

#endif
