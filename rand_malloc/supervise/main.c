/* supervise: run a real program and report the memory, faults and time it used.
 *
 * The program's standard streams pass through untouched; the report, one JSON
 * object, goes to a file or descriptor of its own.  Memory is that of the
 * program's main process; CPU time includes the children it waited for, and orphans
 * that ended by themselves.
 * Exit codes: 0 a report was written, whatever the program did; 1 measuring
 * failed; 2 bad usage; 3 the program cannot be executed; 128 + n stopped by
 * signal n.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "launch.h"
#include "meter.h"
#include "plan.h"
#include "report.h"
#include "tend.h"
#include "watch.h"

extern char **environ;

static const char usage_text[] =
    "Usage: supervise [options] --report FILE|FD -- COMMAND [ARGUMENT]...\n"
    "Runs COMMAND and writes one JSON object about the memory, faults and time it used.\n"
    "  --report FILE|FD      where the report goes: a path, or the number of an open descriptor\n"
    "  --cpu N               pin the command to core N\n"
    "  --aslr off|on         address space randomisation (default off)\n"
    "  --thp keep|never      transparent huge pages: as the machine is set (default), or off\n"
    "  --warm MIB            touch so much free memory before the command starts (default 0)\n"
    "  --timeout SECONDS     stop the command and its process group after this time (default "
    "none)\n"
    "  --sample-ms N         time between two samples of its memory, 1 to 10000 (default 2)\n"
    "  --env NAME=VALUE      set a variable for the command only; repeatable\n"
    "  --unset NAME          remove a variable for the command only; repeatable\n"
    "  --preload PATH        library for the command's LD_PRELOAD\n"
    "  --count-syscalls      count the system calls of the command, which slows it down\n"
    "  --service             follow all processes of a service and report samples as they come; a "
    "number\n"
    "                        on standard input is a signal for it, and its end ends the service\n"
    "  --user NAME           run the command as this user (root only)\n"
    "  --with-parent         end with the process that started supervise, command included\n"
    "  --help, --version\n";

static _Noreturn void fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

static _Noreturn void fail(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("supervise: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(code);
}

static double number_between(const char *option, const char *text, double low, double high) {
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(value >= low && value <= high))
        fail(SUPERVISE_USAGE, "--%s: '%s' is not a number from %g to %g", option, text, low, high);
    return value;
}

static bool one_of(const char *option, const char *text, const char *no, const char *yes) {
    if (strcmp(text, yes) == 0)
        return true;
    if (strcmp(text, no) != 0)
        fail(SUPERVISE_USAGE, "--%s: '%s' is not allowed; use %s or %s", option, text, no, yes);
    return false;
}

static size_t count(char *const *list) {
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    return n;
}

/* The name of entry ends at its first '='. */
static bool has_name(const char *entry, const char *name, size_t length) {
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

static void remove_variable(char **environment, const char *name, size_t length) {
    size_t kept = 0;
    for (size_t i = 0; environment[i] != NULL; i++) {
        if (!has_name(environment[i], name, length))
            environment[kept++] = environment[i];
    }
    environment[kept] = NULL;
}

/* entry: NAME=VALUE, kept by reference.  It comes last, where no title that a program writes over
 * its arguments reaches it, but among the first 256 variables: mimalloc 2.0 reads no more. */
static void set_variable(struct plan *plan, char *entry) {
    enum {
        MOST_BEFORE = 192
    };
    const char *equals = strchr(entry, '=');
    if (equals == NULL || equals == entry)
        fail(SUPERVISE_USAGE, "--env: '%s' is not NAME=VALUE", entry);
    remove_variable(plan->environment, entry, (size_t)(equals - entry));
    size_t n = count(plan->environment);
    char **longer = realloc(plan->environment, (n + 2) * sizeof *longer);
    if (longer == NULL)
        fail(SUPERVISE_FAILED, "environment: %s", strerror(errno));
    size_t at = n < MOST_BEFORE ? n : MOST_BEFORE;
    memmove(longer + at + 1, longer + at, (n + 1 - at) * sizeof *longer);
    longer[at] = entry;
    plan->environment = longer;
}

static char **copy_environment(void) {
    size_t n = count(environ);
    char **copy = malloc((n + 1) * sizeof *copy);
    if (copy == NULL)
        fail(SUPERVISE_FAILED, "environment: %s", strerror(errno));
    memcpy(copy, environ, (n + 1) * sizeof *copy);
    return copy;
}

/* A plain number names an open descriptor, everything else a file. */
static int open_report(const char *text) {
    if (text[0] != '\0' && strspn(text, "0123456789") == strlen(text)) {
        int fd = (int)number_between("report", text, 0, 1 << 20);
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
            fail(SUPERVISE_USAGE, "--report: descriptor %d: %s", fd, strerror(errno));
        return fd;
    }
    int fd = open(text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        fail(SUPERVISE_FAILED, "--report: %s: %s", text, strerror(errno));
    return fd;
}

static void set_preload(struct plan *plan, char *path) {
    char *entry = NULL;
    if (strpbrk(path, ": ") != NULL)
        fail(SUPERVISE_USAGE, "--preload: '%s': the loader splits paths at blanks and colons",
             path);
    if (access(path, R_OK) != 0)
        fail(SUPERVISE_FAILED, "--preload: %s: %s", path, strerror(errno));
    if (asprintf(&entry, "LD_PRELOAD=%s", path) < 0)
        fail(SUPERVISE_FAILED, "--preload: %s", strerror(errno));
    plan->preload = path;
    set_variable(plan, entry);
}

enum option_code {
    CPU,
    ASLR,
    THP,
    WARM,
    TIMEOUT,
    SAMPLE_MS,
    COUNT_SYSCALLS,
    ENV,
    UNSET,
    PRELOAD,
    REPORT,
    SERVICE,
    USER,
    WITH_PARENT,
    HELP,
    VERSION
};

static const struct option options[] = {
    {"cpu", required_argument, NULL, CPU},
    {"aslr", required_argument, NULL, ASLR},
    {"thp", required_argument, NULL, THP},
    {"warm", required_argument, NULL, WARM},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"sample-ms", required_argument, NULL, SAMPLE_MS},
    {"env", required_argument, NULL, ENV},
    {"unset", required_argument, NULL, UNSET},
    {"preload", required_argument, NULL, PRELOAD},
    {"report", required_argument, NULL, REPORT},
    {"count-syscalls", no_argument, NULL, COUNT_SYSCALLS},
    {"service", no_argument, NULL, SERVICE},
    {"user", required_argument, NULL, USER},
    {"with-parent", no_argument, NULL, WITH_PARENT},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0},
};

static void apply(struct plan *plan, int code) {
    switch (code) {
    case CPU:
        plan->cpu = (int)number_between("cpu", optarg, 0, 1023);
        break;
    case ASLR:
        plan->aslr = one_of("aslr", optarg, "off", "on");
        break;
    case THP:
        plan->keep_thp = one_of("thp", optarg, "never", "keep");
        break;
    case WARM:
        plan->warm_bytes = (uint64_t)(number_between("warm", optarg, 0, 1 << 20) * (1 << 20));
        break;
    case TIMEOUT:
        plan->timeout_ns = (uint64_t)(number_between("timeout", optarg, 1e-3, 1e7) * 1e9);
        break;
    case SAMPLE_MS:
        plan->sample_ns = (uint64_t)(number_between("sample-ms", optarg, 1, 1e4) * 1e6);
        break;
    case COUNT_SYSCALLS:
        plan->counts_syscalls = true;
        break;
    case ENV:
        set_variable(plan, optarg);
        break;
    case UNSET:
        remove_variable(plan->environment, optarg, strlen(optarg));
        break;
    case PRELOAD:
        set_preload(plan, optarg);
        break;
    case REPORT:
        plan->report_fd = open_report(optarg);
        break;
    case SERVICE:
        plan->is_service = true;
        break;
    case USER:
        plan->user = getpwnam(optarg);
        if (plan->user == NULL)
            fail(SUPERVISE_USAGE, "--user: there is no user '%s'", optarg);
        break;
    case WITH_PARENT:
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
        break;
    case HELP:
        fputs(usage_text, stdout);
        exit(SUPERVISE_OK);
    case VERSION:
        puts("supervise " MALLOC_TUNER_VERSION);
        exit(SUPERVISE_OK);
    default:
        fputs(usage_text, stderr);
        exit(SUPERVISE_USAGE);
    }
}

static struct plan parse(int argc, char **argv) {
    struct plan plan = {.cpu = -1, .sample_ns = 2000000, .report_fd = -1, .keep_thp = true};
    plan.environment = copy_environment();
    int code;
    while ((code = getopt_long(argc, argv, "+", options, NULL)) != -1)
        apply(&plan, code);
    plan.command = argv + optind;
    if (plan.command[0] == NULL)
        fail(SUPERVISE_USAGE, "no command given; see supervise --help");
    if (plan.report_fd < 0)
        fail(SUPERVISE_USAGE, "--report is missing; see supervise --help");
    return plan;
}

int main(int argc, char **argv) {
    struct plan plan = parse(argc, argv);
    static struct proc_file preload;
    if (plan.preload != NULL && !proc_find_file(plan.preload, &preload))
        fail(SUPERVISE_FAILED, "--preload: %s: %s", plan.preload, strerror(errno));
    static struct meter meter;
    struct launched launched;
    struct outcome outcome = {0};
    struct launch_error error;
    watch_prepare();
    if (!launch(&plan, &launched))
        fail(SUPERVISE_FAILED, "%s: cannot start: %s", plan.command[0], strerror(errno));
    if (plan.is_service)
        outcome.interrupted = tend(&plan, &launched);
    else
        watch(&plan, &launched, plan.preload != NULL ? &preload : NULL, &meter, &outcome);
    if (launch_failed(&launched, &error))
        fail(launch_step_is_exec(error.step) ? SUPERVISE_NO_PROGRAM : SUPERVISE_FAILED,
             "%s: cannot %s: %s", plan.command[0], launch_step_name(error.step),
             strerror(error.error));
    if (outcome.interrupted != 0)
        fail(128 + outcome.interrupted, "%s: stopped: %s", plan.command[0],
             strsignal(outcome.interrupted));
    if (!plan.is_service && !write_report(&plan, &meter, &outcome))
        fail(SUPERVISE_FAILED, "report: %s", strerror(errno));
    free(plan.environment);
    return SUPERVISE_OK;
}
