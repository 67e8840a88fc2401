/* tracer.c - the wait loop; see tracer.h. */
#include "tracer.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK_S 0.1 /* longest time between two looks at the child's CPU time */

static struct {
    volatile sig_atomic_t ticks;     /* of the timer; none while this process is stopped */
    volatile sig_atomic_t interrupt; /* SIGINT or SIGTERM, else 0 */
} waiting;

bool tracer_attach(pid_t child) {
    return ptrace(PTRACE_SEIZE, child, NULL,
                  (void *)(PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
                           PTRACE_O_EXITKILL)) == 0;
}

/* RssAnon = resident - shared of statm, bytes; 0 if it cannot be read. */
static uint64_t anonymous_bytes(const struct traced *traced) {
    char text[128];
    ssize_t length = pread(traced->statm_fd, text, sizeof text - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    char *at = text;
    (void)strtoull(at, &at, 10);
    uint64_t resident = strtoull(at, &at, 10);
    uint64_t shared = strtoull(at, &at, 10);
    return (resident - shared) * PAGE_BYTES;
}

static void note_peak(struct run *run) {
    struct traced *traced = &run->traced;
    uint64_t bytes = anonymous_bytes(traced);
    if (bytes > traced->peak_anonymous_bytes) {
        traced->peak_anonymous_bytes = bytes;
        traced->peak_op = run->outcome->progress;
    }
}

static void note_call(struct run *run, unsigned long call) {
    struct traced *traced = &run->traced;
    if (call == TRACED_MARK_BEGIN)
        traced->in_region = true;
    if (!traced->in_region)
        return;
    run->outcome->n_traced++;
    if (call == TRACED_LAZY_FREE) {
        run->outcome->lazy_seen = 1;
        call = TRACED_MADVISE;
    }
    if (call < SYSCALL_CLASSES)
        traced->calls[call]++;
    if (call != TRACED_MPROTECT && call != TRACED_MARK_BEGIN)
        note_peak(run);
    if (call == TRACED_MARK_END)
        traced->in_region = false;
}

static void open_statm(struct run *run, pid_t child) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", child);
    run->traced.statm_fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* Deals with one ptrace stop and lets the thread go on. */
static void handle_stop(struct run *run, pid_t thread, int status) {
    int event = status >> 16;
    long deliver = 0;
    if (event == PTRACE_EVENT_SECCOMP) {
        unsigned long call = 0;
        ptrace(PTRACE_GETEVENTMSG, thread, NULL, &call);
        note_call(run, call);
    } else if (event == PTRACE_EVENT_EXEC) {
        open_statm(run, thread);
    } else if (event == 0) {
        deliver = WSTOPSIG(status); /* a signal for the program itself */
    }
    ptrace(PTRACE_CONT, thread, NULL, (void *)deliver);
}

static void on_alarm(int number) {
    (void)number;
    waiting.ticks++;
}

static void on_interrupt(int number) {
    waiting.interrupt = number;
}

/* Time between two ticks: a signal just before waitpid is lost, the next one is not. */
static double tick_s(double limit_s) {
    return limit_s < TICK_S ? limit_s : TICK_S;
}

static void set_timer(double limit_s) {
    struct itimerval timer = {{0, 0}, {0, 0}};
    if (limit_s > 0)
        timer.it_value.tv_usec = (suseconds_t)(tick_s(limit_s) * 1e6) + 1;
    timer.it_interval = timer.it_value;
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* CPU time of a process so far, all its threads; 0 when it has ended. */
static double cpu_s(pid_t child) {
    clockid_t clock;
    return clock_getcpuclockid(child, &clock) == 0 ? (double)real_clock_ns(clock) / 1e9 : 0;
}

/* Has the child used its time?  The limit is one of CPU time, so that a busy machine does not
 * stop what is only waiting for its turn; HANG_FACTOR times as much elapsed time stops what
 * sleeps for ever. */
static bool is_time_over(struct run *run, pid_t child) {
    double limit_s = run->options->timeout_s;
    run->is_hung = waiting.ticks * tick_s(limit_s) >= HANG_FACTOR * limit_s;
    return run->is_hung || cpu_s(child) >= limit_s;
}

/* What is ignored stays so: nohup ignores SIGHUP. */
static void handle_unless_ignored(int number, const struct sigaction *action) {
    struct sigaction before;
    if (sigaction(number, NULL, &before) != 0 || before.sa_handler != SIG_IGN)
        sigaction(number, action, NULL);
}

static void install_handlers(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action); /* no SA_RESTART: waitpid must return */
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = on_interrupt;
    handle_unless_ignored(SIGINT, &action);
    handle_unless_ignored(SIGTERM, &action);
    handle_unless_ignored(SIGHUP, &action);
}

/* Kills what is left of the group and collects everything that was ours. */
static void reap_group(pid_t child) {
    kill(-child, SIGKILL);
    while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR) {
    }
}

static void die_of_interrupt(void) {
    signal((int)waiting.interrupt, SIG_DFL);
    raise((int)waiting.interrupt);
}

void tracer_wait(struct run *run, pid_t child) {
    int status = 0;
    run->traced.statm_fd = -1;
    waiting.ticks = 0;
    install_handlers();
    set_timer(run->options->timeout_s);
    sig_atomic_t seen = 0;
    for (bool is_over = false; !is_over;) {
        pid_t changed = waitpid(-1, &status, __WALL);
        if (changed > 0 && WIFSTOPPED(status))
            handle_stop(run, changed, status);
        else if (changed == child || (changed < 0 && errno != EINTR))
            is_over = true;
        if (waiting.interrupt != 0)
            is_over = true;
        else if (!is_over && waiting.ticks != seen)
            run->timed_out = is_over = is_time_over(run, child);
        seen = waiting.ticks;
    }
    set_timer(0);
    run->status = status;
    reap_group(child);
    if (run->traced.statm_fd >= 0)
        close(run->traced.statm_fd);
    if (waiting.interrupt != 0)
        die_of_interrupt();
}
