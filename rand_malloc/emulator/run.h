/* run.h - one child process: start it, wait for it, explain how it ended. */
#ifndef RAND_MALLOC_RUN_H
#define RAND_MALLOC_RUN_H

#include "filter.h"
#include "huge_pages.h"
#include "options.h"
#include "workload.h"

/* What the tracer saw between the marks. */
struct traced {
    bool is_traced;
    bool in_region;
    uint64_t calls[SYSCALL_CLASSES];
    uint64_t peak_anonymous_bytes; /* read before every call that can give memory back */
    uint64_t peak_op;              /* operation at that time */
    int statm_fd;
};

/* A command that starts the replayer, possibly under an instrument. */
struct command {
    char *words[24]; /* NULL at the end; owned */
    int n_words;
    bool carries_preload; /* the command sets LD_PRELOAD itself */
};

struct run {
    const struct options *options;
    const struct workload *workload;
    enum run_kind kind;
    bool use_perf;
    int outcome_fd;
    int counter_fd; /* memfd for the instrument's result */
    int log_fd;     /* memfd: what the child printed */
    struct outcome *outcome;
    struct traced traced;
    int status; /* of waitpid */
    bool timed_out;
    struct huge_pages huge_pages; /* meanwhile on the machine; of a run that keeps them */
    bool is_hung; /* with timed_out: too much elapsed time, too little of it CPU time */
};

/* Appends words to a command: formatted, owned by it.  Exits if memory is short. */
__attribute__((format(printf, 2, 3))) void command_add(struct command *command, const char *format,
                                                       ...);
void command_release(struct command *command);

/* Path of this executable; of a file beside it. */
const char *run_self_path(void);
void run_beside_self(const char *name, char *path, unsigned path_bytes);

/* The processor a deterministic run is pinned to. */
int run_cpu(const struct options *options);

/* Can a process be pinned to it?  EXIT_OK or EXIT_REPLAY with a message; threads that run freely
 * need none. */
int run_check_cpu(const struct options *options);

/* Prepares the memfds; EXIT_OK or a code with a message. */
int run_open(struct run *run);

/* Starts prefix + replayer and waits; EXIT_OK when a child ran to whatever end. */
int run_execute(struct run *run, const struct command *prefix);

/* Says on stderr how a child failed; EXIT_OK if it did not. */
int run_verdict(const struct run *run);

void run_close(struct run *run);

/* True if the child came as far as reading its orders. */
bool run_has_started(const struct run *run);

/* Passes on to stderr what the child printed, at most a few lines: warnings of an allocator. */
void run_print_log(const struct run *run);

/* The last line the child printed, or "". */
void run_last_line(const struct run *run, char *line, unsigned line_bytes);

#endif
