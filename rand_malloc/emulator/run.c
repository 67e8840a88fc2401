/* run.c - spawns the replayer with everything that could vary held fixed; see run.h.
 *
 * Before the exec: own process group, death with the supervisor, no address-space
 * randomisation (personality(2), inherited), transparent huge pages off if asked, one processor, a
 * fixed environment, standard output and error into a memfd.
 */
#include "run.h"
#include "environment.h"
#include "message.h"
#include "rawsys.h"
#include "replayer.h"
#include "tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void command_add(struct command *command, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (command->n_words + 1 >= (int)(sizeof command->words / sizeof command->words[0]) ||
        vasprintf(&command->words[command->n_words++], format, list) < 0)
        abort();
    va_end(list);
}

void command_release(struct command *command) {
    for (int i = 0; i < command->n_words; i++)
        free(command->words[i]);
    *command = (struct command){.n_words = 0};
}

const char *run_self_path(void) {
    static char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return path;
}

void run_beside_self(const char *name, char *path, unsigned path_bytes) {
    const char *self = run_self_path();
    int directory = (int)(strrchr(self, '/') - self);
    snprintf(path, path_bytes, "%.*s/%s", directory, self, name);
}

static uint64_t page_align(uint64_t bytes) {
    return (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

/* Allocators do not read what is in a block, so that their instructions do not depend on it: a
 * counted run need not touch its pages. */
static enum touch touch_of(const struct run *run) {
    enum touch touch = run->options->touch;
    bool is_counted = run->kind == RUN_COUNT || run->kind == RUN_EMPTY;
    if (!is_counted || touch == TOUCH_NONE)
        return touch;
    return touch == TOUCH_RECORDED ? TOUCH_RECORDED_ENDS : TOUCH_ENDS;
}

static void write_orders(struct run *run) {
    const struct options *options = run->options;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    run->outcome->orders = (struct orders){
        .kind = (uint32_t)run->kind,
        .touch = touch_of(run),
        .free_running = options->is_free_running,
        .use_perf = run->use_perf,
        .cpus = options->cpus > 0 ? options->cpus : (uint32_t)(online > 0 ? online : 1),
        .seed = options->seed,
    };
}

int run_open(struct run *run) {
    const struct plan *plan = run->workload->plan;
    uint64_t samples_offset = page_align(sizeof(struct outcome));
    uint64_t histograms_offset =
        page_align(samples_offset + plan->n_samples * sizeof(struct sample));
    uint64_t file_bytes = histograms_offset;
    if (run->options->is_free_running)
        file_bytes += ((uint64_t)plan->n_stacks + 1) * LATENCY_KINDS * sizeof(struct histogram);
    run->outcome_fd = memfd_create("outcome", MFD_CLOEXEC);
    run->counter_fd = memfd_create("counter", MFD_CLOEXEC);
    run->log_fd = memfd_create("log", MFD_CLOEXEC);
    if (run->outcome_fd < 0 || run->counter_fd < 0 || run->log_fd < 0 ||
        ftruncate(run->outcome_fd, (off_t)file_bytes) != 0)
        return complain(EXIT_REPLAY, "memfd", "%s", strerror(errno));
    void *mapped = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, run->outcome_fd, 0);
    if (mapped == MAP_FAILED)
        return complain(EXIT_REPLAY, "outcome", "%s", strerror(errno));
    run->outcome = mapped;
    run->outcome->samples_offset = samples_offset;
    run->outcome->histograms_offset = run->options->is_free_running ? histograms_offset : 0;
    run->outcome->file_bytes = file_bytes;
    write_orders(run);
    return EXIT_OK;
}

void run_close(struct run *run) {
    if (run->outcome != NULL)
        munmap(run->outcome, run->outcome->file_bytes);
    const int descriptors[] = {run->outcome_fd, run->counter_fd, run->log_fd};
    for (size_t i = 0; i < 3; i++)
        if (descriptors[i] > 0)
            close(descriptors[i]);
    run->outcome = NULL;
    run->outcome_fd = run->counter_fd = run->log_fd = -1;
}

int run_cpu(const struct options *options) {
    cpu_set_t allowed;
    if (options->cpu >= 0)
        return options->cpu;
    CPU_ZERO(&allowed); /* raw: sched_getaffinity is the virtual machine's, see clock.h */
    raw_syscall3(SYS_sched_getaffinity, 0, sizeof allowed, (long)&allowed);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            return (int)cpu;
    return 0;
}

static bool pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

int run_check_cpu(const struct options *options) {
    cpu_set_t before;
    int cpu = run_cpu(options);
    if (options->is_free_running)
        return EXIT_OK;
    CPU_ZERO(&before);
    raw_syscall3(SYS_sched_getaffinity, 0, sizeof before, (long)&before);
    if (!pin(cpu))
        return complain(EXIT_REPLAY, "replay", "cannot pin to processor %d: %m", cpu);
    sched_setaffinity(0, sizeof before, &before);
    return EXIT_OK;
}

_Noreturn static void child_fail(const char *step) {
    dprintf(STDERR_FILENO, "%s: %s\n", step, strerror(errno));
    _exit(127);
}

static void redirect(const struct run *run) {
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(run->log_fd, STDOUT_FILENO);
    dup2(run->log_fd, STDERR_FILENO);
    if (dup2(run->workload->plan_fd, PLAN_FD) < 0 || dup2(run->outcome_fd, OUTCOME_FD) < 0 ||
        dup2(run->counter_fd, COUNTER_FD) < 0)
        child_fail("dup2");
}

/* Runs in the child between fork and exec. */
_Noreturn static void become_replayer(const struct run *run, char **words, char **environment,
                                      int gate_fd) {
    char go;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    redirect(run);
    if (!run->options->keeps_thp)
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (!run->options->is_free_running && !pin(run_cpu(run->options)))
        child_fail("cannot pin to that processor");
    if (read(gate_fd, &go, 1) != 1)
        _exit(127);
    execve(words[0], words, environment);
    child_fail(words[0]);
}

/* Opens the gate only after the tracer is attached. */
static int supervise(struct run *run, pid_t child, int gate_fd) {
    setpgid(child, child); /* as the child does; whoever comes first */
    bool wants_trace = run->kind == RUN_MEMORY && !run->options->is_free_running;
    run->traced.is_traced = wants_trace && tracer_attach(child);
    run->outcome->orders.traced = run->traced.is_traced;
    run->outcome->lazy_seen = run->kind == RUN_MEMORY && !run->traced.is_traced;
    if (write(gate_fd, "g", 1) != 1)
        return complain(EXIT_REPLAY, "start", "%s", strerror(errno));
    close(gate_fd);
    tracer_wait(run, child);
    return EXIT_OK;
}

/* For this process's children; some containers forbid it. */
static void fix_addresses(void) {
    static bool has_warned;
    int before = personality(0xffffffff); /* asks only */
    if (before != -1 && personality((unsigned long)before | ADDR_NO_RANDOMIZE) != -1)
        return;
    if (!has_warned)
        complain(0, "warning", "address randomisation stays on (%s): numbers may vary",
                 strerror(errno));
    has_warned = true;
}

int run_execute(struct run *run, const struct command *prefix) {
    struct command command = {.n_words = 0};
    struct environment environment;
    int gate[2];
    for (int i = 0; prefix != NULL && i < prefix->n_words; i++)
        command_add(&command, "%s", prefix->words[i]);
    command_add(&command, "%s", run_self_path());
    command_add(&command, REPLAYER_ARGUMENT);
    environment_build(run->options, prefix != NULL && prefix->carries_preload, &environment);
    if (pipe2(gate, O_CLOEXEC) != 0)
        return complain(EXIT_REPLAY, "pipe", "%s", strerror(errno));
    fix_addresses();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        become_replayer(run, command.words, environment.strings, gate[0]);
    int code = child > 0 ? supervise(run, child, gate[1])
                         : complain(EXIT_REPLAY, "fork", "%s", strerror(errno));
    close(gate[0]); /* not before: opening the gate for a child that is gone would be SIGPIPE */
    environment_release(&environment);
    command_release(&command);
    return code;
}
