/* What supervise reports about programs whose use of memory and time is known.
 *
 * Each case runs supervise on the subject program and reads numbers out of the
 * report; a case passes only by returning true.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MIB (1 << 20)

enum {
    ROOM = 1 << 20,
    N_ARGS = 24
};

static const char *supervise;
static const char *subject;
static const char *library;
static char oddly_named[64]; /* a copy of the library */
static char other_named[64]; /* another one, named as exgen is */
static char folder[] = "/tmp/supervise-test-XXXXXX";
static char report[ROOM];
static char output[ROOM];

/* Defines a case, which main runs: in the order in which they stand. */
#define CASE(name)                                                                                 \
    static bool name(void);                                                                        \
    __attribute__((constructor)) static void add_##name(void) {                                    \
        names[n_cases] = #name;                                                                    \
        cases[n_cases++] = name;                                                                   \
    }                                                                                              \
    static bool name(void)

static const char *names[64];
static bool (*cases[64])(void);
static size_t n_cases;

static void read_file(const char *path, char text[ROOM]) {
    text[0] = '\0';
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return;
    ssize_t got = read(fd, text, ROOM - 1);
    text[got > 0 ? got : 0] = '\0';
    close(fd);
}

/* Run supervise with the words of a line, split at blanks; $S is the subject, $L the library. */
static int run(const char *line) {
    char words[1024];
    char report_path[64];
    char output_path[64];
    char *arguments[N_ARGS] = {(char *)(uintptr_t)supervise, (char *)(uintptr_t) "--report",
                               report_path};
    size_t n = 3;
    (void)snprintf(words, sizeof words, "%s", line);
    (void)snprintf(report_path, sizeof report_path, "%s/report", folder);
    (void)snprintf(output_path, sizeof output_path, "%s/output", folder);
    (void)unlink(report_path);
    for (char *word = strtok(words, " "); word != NULL && n < N_ARGS - 1;
         word = strtok(NULL, " ")) {
        const char *real = strcmp(word, "$S") == 0   ? subject
                           : strcmp(word, "$L") == 0 ? library
                           : strcmp(word, "$M") == 0 ? oddly_named
                           : strcmp(word, "$E") == 0 ? other_named
                                                     : word;
        arguments[n++] = (char *)(uintptr_t)real;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = 0;
    int status = -1;
    if (posix_spawn(&pid, supervise, &actions, NULL, arguments, environ) == 0)
        (void)waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&actions);
    read_file(report_path, report);
    read_file(output_path, output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static double number(const char *key) {
    char quoted[64];
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *found = strstr(report, quoted);
    return found == NULL ? -1.0 : strtod(found + strlen(quoted), NULL);
}

/* The values of one key in a report of several lines. */
struct series {
    double greatest; /* -1: there is none */
    bool rises;      /* none is less than the one before it */
};

static struct series series_of(const char *key) {
    char quoted[64];
    struct series series = {-1.0, true};
    double last = 0.0;
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", key);
    for (const char *at = report; (at = strstr(at, quoted)) != NULL;) {
        at += strlen(quoted);
        double value = strtod(at, NULL);
        series.rises = series.rises && value >= last;
        series.greatest = value > series.greatest ? value : series.greatest;
        last = value;
    }
    return series;
}

static bool says(const char *text) {
    return strstr(report, text) != NULL;
}

static bool between(double value, double low, double high) {
    if (value >= low && value <= high)
        return true;
    fprintf(stderr, "  %g is not between %g and %g\n", value, low, high);
    return false;
}

CASE(exit_status_is_reported) {
    return run("-- $S exit 7") == 0 &&
           says("\"exit_status\":7,\"signal\":null,\"timed_out\":false");
}

CASE(fatal_signal_is_reported) {
    return run("-- $S crash") == 0 && says("\"exit_status\":null,\"signal\":11,");
}

CASE(short_spike_is_in_the_peak) {
    return run("--sample-ms 10000 -- $S spike") == 0 && says("\"peak_from\":\"exit\"") &&
           between(number("mean_anon_cpu_bytes"), 20.0 * MIB, 41.0 * MIB) &&
           between(number("peak_rss_bytes"), 64.0 * MIB, 68.0 * MIB) &&
           between(number("peak_anon_bytes"), 63.0 * MIB, 66.0 * MIB);
}

CASE(steady_memory_is_the_mean) {
    return run("-- $S hold") == 0 && between(number("mean_anon_bytes"), 10.0 * MIB, 17.0 * MIB) &&
           number("n_samples") >= 2 && number("wall_ns") >= 0.3e9;
}

/* A third of the time, or the half where the machine is slow. */
CASE(the_mean_is_from_the_start_to_the_end) {
    return run("-- $S rest-hold-rest") == 0 &&
           between(number("mean_anon_bytes"), 1.0 * MIB, 24.0 * MIB) &&
           between(number("peak_anon_bytes"), 32.0 * MIB, 34.0 * MIB);
}

CASE(memory_held_while_waiting_is_not_in_the_mean_over_cpu_time) {
    return run("-- $S burn-then-hold") == 0 &&
           between(number("mean_anon_cpu_bytes"), 0, 8.0 * MIB) &&
           between(number("mean_anon_bytes"), 16.0 * MIB, 33.0 * MIB);
}

CASE(lazily_freed_pages_are_not_in_the_mean) {
    bool is_seen = false;
    for (int i = 0; i < 3 && !is_seen; i++) /* a host that takes the core puts off the next look */
        is_seen = run("-- $S lazy") == 0 && between(number("mean_anon_bytes"), 0, 20.0 * MIB);
    return is_seen && between(number("lazy_free_bytes"), 30.0 * MIB, 33.0 * MIB);
}

CASE(memory_before_an_exec_is_forgotten) {
    return run("-- $S spike-then-exec") == 0 && between(number("peak_rss_bytes"), 1, 8.0 * MIB);
}

CASE(an_exec_of_another_thread_is_seen) {
    return run("-- $S spike-then-exec-in-a-thread") == 0 &&
           between(number("peak_rss_bytes"), 16.0 * MIB, 24.0 * MIB) &&
           number("n_threads") == 1.0 && says("\"peak_from\":\"exit\"");
}

CASE(time_before_an_exec_is_forgotten) {
    return run("-- $S burn-child-then-exec") == 0 && between(number("user_ns"), 0, 0.05e9) &&
           between(number("children_cpu_ns"), 0, 0) && number("instructions") < 1e8;
}

CASE(memory_after_the_first_thread_ended_is_seen) {
    return run("--sample-ms 1 -- $S first-thread-ends") == 0 && says("\"peak_from\":\"samples\"") &&
           between(number("peak_rss_bytes"), 39.0 * MIB, 48.0 * MIB);
}

CASE(threads_are_counted) {
    return run("--sample-ms 1 -- $S first-thread-ends") == 0 && number("n_threads") == 2.0 &&
           run("-- $S spike") == 0 && number("n_threads") == 1.0;
}

CASE(system_calls_of_all_threads_are_counted) {
    double few = run("--count-syscalls -- $S syscalls 10") == 0 ? number("syscalls") : -1.0;
    double many = run("--count-syscalls -- $S syscalls 1010") == 0 ? number("syscalls") : -1.0;
    return between(few, 20.0, 200.0) && between(many - few, 1999.0, 2001.0) &&
           run("-- $S exit 0") == 0 && says("\"syscalls\":null");
}

CASE(program_that_a_traced_child_becomes_is_not_the_one) {
    return run("--count-syscalls -- $S spike after-a-clone") == 0 &&
           number("peak_rss_bytes") > 64.0 * MIB;
}

CASE(program_that_hangs_is_stopped) {
    return run("--timeout 0.2 -- $S hang") == 0 && says("\"signal\":9,\"timed_out\":true");
}

CASE(program_that_hangs_in_another_group_is_stopped) {
    return run("--timeout 0.2 -- $S hang-in-another-group") == 0 &&
           says("\"signal\":9,\"timed_out\":true");
}

CASE(faults_of_the_program_are_counted) {
    return run("-- $S spike") == 0 && between(number("faults"), 64 * 256, 64 * 256 + 400);
}

CASE(time_of_children_is_included_and_told_apart) {
    return run("-- $S burn-in-a-child") == 0 && number("user_ns") >= 0.05e9 &&
           says("\"leaves_others\":false") &&
           between(number("children_cpu_ns"), 0.8 * number("user_ns") - 2e7,
                   1.2 * number("user_ns") + 2e7);
}

/* 0.2 s in each, which the one before the exec does not add to. */
CASE(time_of_orphans_is_counted_once) {
    return run("-- $S work-in-an-orphan work-in-an-orphan") == 0 &&
           says("\"leaves_others\":false") &&
           between(number("user_ns") + number("system_ns"), 0.18e9, 0.3e9) &&
           between(number("children_cpu_ns"), 0.18e9, 0.3e9);
}

CASE(orphans_are_ended) {
    return run("-- $S leave-a-child") == 0 && says("\"exit_status\":0") && atoi(output) > 1 &&
           kill(atoi(output), 0) != 0 && says("\"leaves_others\":true");
}

CASE(what_is_just_ending_is_not_left) {
    return run("-- $S leave-a-child-that-ends") == 0 && says("\"leaves_others\":false");
}

CASE(environment_is_for_the_program_only) {
    (void)setenv("SUPERVISE_TEST_GONE", "here", 1);
    bool is_set = run("--env A_NAME=a=b -- $S echo A_NAME") == 0 && strcmp(output, "a=b\n") == 0;
    return is_set && run("--unset SUPERVISE_TEST_GONE -- $S echo SUPERVISE_TEST_GONE") == 0 &&
           strcmp(output, "unset\n") == 0;
}

/* Lines of the output before one. */
static int lines_before(const char *line) {
    int n = 0;
    const char *end = strstr(output, line);
    for (const char *at = output; end != NULL && at < end; at++)
        n += *at == '\n';
    return end != NULL ? n : -1;
}

/* Last, but where mimalloc 2.0 still reads. */
CASE(environment_has_what_is_set_within_the_first_256) {
    char *const few[] = {"FIRST=1", NULL};
    char *many[301] = {NULL};
    char text[300][8];
    for (int i = 0; i < 300; i++) {
        (void)snprintf(text[i], sizeof text[i], "V%d=", i);
        many[i] = text[i];
    }
    char **own = environ;
    environ = (char **)few;
    bool is_last = run("--env A=1 --env B=2 -- /usr/bin/env") == 0 &&
                   strcmp(output, "FIRST=1\nA=1\nB=2\n") == 0;
    environ = many;
    bool is_within = run("--env A=1 --env B=2 -- /usr/bin/env") == 0 && lines_before("A=1") < 256 &&
                     lines_before("V299=") > 256;
    environ = own;
    return is_last && is_within && lines_before("A=1") > 0;
}

CASE(addresses_are_fixed) {
    char first[ROOM];
    if (run("-- $S address") != 0)
        return false;
    memcpy(first, output, ROOM);
    bool is_same =
        run("-- $S address") == 0 && strcmp(first, output) == 0 && says("\"fixed_addresses\":true");
    return is_same && run("--aslr on -- $S address") == 0 && strcmp(first, output) != 0;
}

/* As in a container: personality(2) may only be asked. */
CASE(addresses_may_stay_random) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_personality, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ||
              run("-- $S exit 0") != 0 || !says("\"fixed_addresses\":false"));
    return waitpid(pid, &status, 0) == pid && status == 0;
}

CASE(preload_is_checked) {
    bool is_mapped = run("--preload $L -- $S exit 0") == 0 && says("\"preload_mapped\":true");
    bool is_unknown = run("-- $S exit 0") == 0 && says("\"preload_mapped\":null");
    /* A later setting of the variable takes the library out again: that must be noticed. */
    return is_mapped && is_unknown && run("--preload $L --env LD_PRELOAD= -- $S exit 0") == 0 &&
           says("\"preload_mapped\":false");
}

CASE(allocators_in_the_program_are_named) {
    bool is_named = run("--preload $M -- $S exit 0") == 0 && says("odd\\u0022malloc.so\"],");
    is_named = is_named && run("--preload $E -- $S exit 0") == 0 && says("libexgen.so\"],");
    return is_named && run("-- $S exit 0") == 0 && says("\"malloc_libraries\":[],");
}

CASE(the_file_behind_what_starts_it_is_named) {
    return run("-- env $S exit 0") == 0 && says("/supervise_subject\",\"changed_variables\":[],");
}

CASE(missing_program_has_its_own_exit_code) {
    return run("-- /nonexistent/program") == 3 &&
           run("--preload /nonexistent.so -- $S exit 0") == 1;
}

CASE(bad_usage_is_refused) {
    return run("--cpu x -- $S exit 0") == 2 && run("--thp maybe -- $S exit 0") == 2 &&
           run("--env =x -- $S exit 0") == 2 && run("--sample-ms 0 -- $S exit 0") == 2 &&
           run("--warm -1 -- $S exit 0") == 2 && run("--") == 2;
}

CASE(memory_that_is_touched_before_the_start_is_not_the_programs) {
    double before = run("-- $S exit 0") == 0 ? number("peak_rss_bytes") : -1.0;
    return before > 0.0 && run("--warm 64 -- $S exit 0") == 0 &&
           number("peak_rss_bytes") < before + MIB && number("system_ns") < 5e7;
}

CASE(core_is_the_one_asked_for) {
    return run("--cpu 0 -- $S exit 0") == 0 && run("--cpu 1023 -- $S exit 0") == 1;
}

/* A process that asks for a sample every 50 ms: by itself supervise takes few that cost much. */
static pid_t ask_for_samples(int orders) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    while (write(orders, "\n", 1) == 1)
        (void)usleep(50000);
    _exit(0);
}

/* Run it as a service; its orders end at once, or each is for a sample. */
static int run_service(bool has_end, const char *line) {
    int orders[2];
    int before = dup(STDIN_FILENO);
    if (before < 0 || pipe(orders) != 0 || dup2(orders[0], STDIN_FILENO) < 0)
        return -1;
    close(orders[0]);
    pid_t asking = has_end ? -1 : ask_for_samples(orders[1]);
    close(orders[1]);
    int status = run(line);
    if (asking > 0) {
        (void)kill(asking, SIGKILL);
        (void)waitpid(asking, NULL, 0);
    }
    (void)dup2(before, STDIN_FILENO);
    close(before);
    return status;
}

CASE(a_service_ends_with_its_orders) {
    return run_service(true, "--service -- $S hang-in-another-group") == 0 &&
           says("\"event\":\"start\"") && says("\"schema\":\"supervise.service\",\"version\":1") &&
           says("\"event\":\"end\"") && says("\"processes\":0");
}

CASE(the_orphans_of_a_service_end_with_its_orders) {
    return run_service(true, "--service -- $S leave-a-child") == 0 &&
           (atoi(output) == 0 || kill(atoi(output), 0) != 0);
}

/* Some sample has both: those taken while processes begin or end are of neither state. */
CASE(memory_shared_with_children_is_lazily_freed_once) {
    bool is_seen = false;
    if (run_service(false, "--service --sample-ms 20 -- $S lazy-then-fork") != 0)
        return false;
    for (const char *at = report; !is_seen && (at = strstr(at, "\"anon_bytes\":")) != NULL; at++) {
        double anon = 0.0;
        double lazy = 0.0;
        is_seen = sscanf(at, "\"anon_bytes\":%lf,\"lazy_free_bytes\":%lf", &anon, &lazy) == 2 &&
                  anon >= 95.0 * MIB && anon <= 112.0 * MIB && lazy >= 60.0 * MIB &&
                  lazy <= 66.0 * MIB;
    }
    return is_seen;
}

CASE(time_of_children_that_nobody_waits_for_is_kept) {
    return run_service(false, "--service --sample-ms 10 -- $S ignore-children") == 0 &&
           series_of("cpu_ns").rises && between(series_of("cpu_ns").greatest, 0.3e9, 1.2e9);
}

CASE(a_missing_service_has_its_own_exit_code) {
    return run_service(false, "--service -- /nonexistent/program") == 3 &&
           run("--user nobody-of-this-name -- $S exit 0") == 2;
}

static void clean(void) {
    char path[64];
    (void)snprintf(path, sizeof path, "%s/report", folder);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/output", folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

static bool copy_file(const char *from, const char *to) {
    char bytes[4096];
    ssize_t got = 0;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    bool is_good = in >= 0 && out >= 0;
    while (is_good && (got = read(in, bytes, sizeof bytes)) > 0)
        is_good = write(out, bytes, (size_t)got) == got;
    close(in);
    close(out);
    return is_good && got == 0;
}

int main(int argc, char **argv) {
    if (argc != 4 || mkdtemp(folder) == NULL)
        return 2;
    supervise = argv[1];
    subject = argv[2];
    library = argv[3];
    (void)snprintf(oddly_named, sizeof oddly_named, "%s/odd\"malloc.so", folder);
    (void)snprintf(other_named, sizeof other_named, "%s/libexgen.so", folder);
    if (!copy_file(library, oddly_named) || !copy_file(library, other_named))
        return 2;
    int n_failed = 0;
    for (size_t i = 0; i < n_cases; i++) {
        if (!cases[i]()) {
            fprintf(stderr, "FAILED: %s\n  report: %.600s\n", names[i], report);
            n_failed++;
        }
    }
    (void)unlink(oddly_named);
    (void)unlink(other_named);
    clean();
    return n_failed == 0 ? 0 : 1;
}
