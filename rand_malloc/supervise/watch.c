/* From the start of the program to its end: see watch.h.
 *
 * One loop: reap what has changed, sample when due, stop at the limit, sleep
 * until a signal or the next deadline.  SIGCHLD is blocked and waited for, so
 * no event is lost between reaping and sleeping.
 */
#include "watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "counter.h"

enum {
    SYSCALL_STOP = SIGTRAP | 0x80 /* PTRACE_O_TRACESYSGOOD */
};

/* What a pipeline's last command takes to end after its first, on a busy computer. */
static const uint64_t SETTLE_NS = UINT64_C(50000000);

/* How long, and how often, an exec is looked for after the end of the first thread: where another
 * one becomes another program, that end is part of it. */
static const uint64_t EXEC_NS = UINT64_C(1000000);
static const uint64_t EXEC_POLL_NS = UINT64_C(50000);

void watched_signals(sigset_t *signals) {
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGCHLD);
    (void)sigaddset(signals, SIGINT);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGHUP);
}

void watch_prepare(void) {
    sigset_t signals;
    watched_signals(&signals);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    /* Orphans of the program become ours, so that they can be ended with it. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static bool is_stopping_signal(int number) {
    return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* Let a stopped thread go on, to the next system call if these are counted. */
static void go_on(const struct plan *plan, pid_t tid, long delivered) {
    (void)ptrace(plan->counts_syscalls ? PTRACE_SYSCALL : PTRACE_CONT, tid, NULL, delivered);
}

/* True at the entry to a system call, false at its exit. */
static bool is_entry(pid_t tid) {
    struct __ptrace_syscall_info info;
    return ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) > 0 &&
           info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

/* It has become another program: what was before an exec is none of it. */
static void begin_anew(const struct launched *launched, struct meter *meter,
                       struct outcome *outcome) {
    (void)counter_read(launched->counter_fd, &outcome->instructions_before);
    free(outcome->environment.text); /* the program may write over its own later */
    outcome->environment.text = NULL;
    (void)proc_environment(launched->pid, &outcome->environment);
    (void)proc_program(launched->pid, outcome->program);
    meter_start(meter, launched->pid);
    meter_sample(meter);
    outcome->n_syscalls = outcome->held_ns = outcome->first_end_ns = 0;
    outcome->reaped_before = cpu_reaped();
}

/* A thread that is not traced takes the number of the first one as it becomes another program: who
 * holds that number is not traced any more.  Taking hold waits for an exec to end, which would wait
 * for threads that we hold. */
static void take_hold_again(const struct plan *plan, const struct launched *launched,
                            struct meter *meter, struct outcome *outcome) {
    bool are_held = plan->counts_syscalls;
    if (outcome->first_end_ns != 0 && !are_held && launch_trace(plan, launched->pid))
        begin_anew(launched, meter, outcome);
}

static bool is_exec_near(const struct outcome *outcome, uint64_t now) {
    return outcome->first_end_ns != 0 && now < outcome->first_end_ns + EXEC_NS;
}

/* Answer one ptrace stop of the program or a thread of it, and let it go on. */
static void handle_stop(const struct plan *plan, const struct launched *launched, pid_t tid,
                        int status, const struct proc_file *preload, struct meter *meter,
                        struct outcome *outcome) {
    int event = status >> 16;
    int number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_STOP && is_stopping_signal(number)) {
        (void)ptrace(PTRACE_LISTEN, tid, NULL, NULL);
        return;
    }
    if (number == SYSCALL_STOP) {
        outcome->n_syscalls += is_entry(tid);
        go_on(plan, tid, 0);
        return;
    }
    if (event == PTRACE_EVENT_EXEC && tid == meter->pid) {
        begin_anew(launched, meter, outcome);
    } else if (event == PTRACE_EVENT_EXIT && tid == meter->pid) {
        uint64_t from_ns = monotonic_ns();
        meter_exit(meter, preload);
        outcome->first_end_ns = monotonic_ns();
        outcome->held_ns = outcome->first_end_ns - from_ns;
    }
    go_on(plan, tid, event == 0 ? number : 0);
}

/* Reap everything that has changed; true when the program itself has ended. */
static bool reap(const struct plan *plan, const struct launched *launched,
                 const struct proc_file *preload, struct meter *meter, struct outcome *outcome) {
    int status = 0;
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, __WALL | WNOHANG, &usage)) > 0) {
        if (WIFSTOPPED(status)) {
            handle_stop(plan, launched, pid, status, preload, meter, outcome);
            continue;
        }
        if (pid != launched->pid)
            continue;
        outcome->wait_status = status;
        outcome->used = cpu_of(&usage);
        outcome->wall_ns = monotonic_ns() - meter->start_ns;
        if (meter->is_final)
            outcome->wall_ns -= outcome->held_ns;
        return true;
    }
    return pid < 0 && errno == ECHILD;
}

/* Sleep until a watched signal or the deadline; returns the signal or 0. */
static int sleep_until(uint64_t deadline_ns) {
    sigset_t signals;
    uint64_t now = monotonic_ns();
    uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec wait = {(time_t)(left / UINT64_C(1000000000)),
                            (long)(left % UINT64_C(1000000000))};
    watched_signals(&signals);
    int number = sigtimedwait(&signals, NULL, &wait);
    return number > 0 ? number : 0;
}

/* End one direct child of ours; true when there was one. */
static bool end_an_orphan(void) {
    char path[64];
    int pid = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    if (children == NULL)
        return false;
    bool found = fscanf(children, "%d", &pid) == 1;
    fclose(children);
    if (!found || kill(pid, SIGKILL) != 0) /* one that has become root is left */
        return false;
    (void)waitpid(pid, NULL, __WALL);
    return true;
}

/* Whether children of ours are there once those that are just ending have ended. */
static bool are_any_left(void) {
    const struct timespec pause = {0, 1000000};
    const uint64_t deadline_ns = monotonic_ns() + SETTLE_NS;
    for (;;) {
        pid_t pid = waitpid(-1, NULL, __WALL | WNOHANG);
        if (pid < 0)
            return false;
        if (pid > 0)
            continue;
        if (monotonic_ns() >= deadline_ns)
            return true;
        (void)nanosleep(&pause, NULL);
    }
}

/* The kernel adds the time of each process that was reaped once, the program's among them. */
static void add_orphans(struct outcome *outcome) {
    struct cpu_use program = outcome->used;
    struct cpu_use all = cpu_reaped();
    outcome->used.user_ns = all.user_ns - outcome->reaped_before.user_ns;
    outcome->used.system_ns = all.system_ns - outcome->reaped_before.system_ns;
    uint64_t used_ns = outcome->used.user_ns + outcome->used.system_ns;
    uint64_t program_ns = program.user_ns + program.system_ns;
    outcome->orphans_ns = used_ns > program_ns ? used_ns - program_ns : 0;
}

/* True when there was something.  Orphans are ours, and others have an orphan above them. */
static bool end_what_is_left(pid_t group, struct outcome *outcome) {
    bool was_left = are_any_left();
    add_orphans(outcome);
    (void)kill(-group, SIGKILL);
    while (end_an_orphan()) {
    }
    return was_left;
}

/* End the program and its group; it may have gone into another one.  Not yet reaped, so
 * the number is still its own. */
static void end_program(pid_t pid) {
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
}

void watch(const struct plan *plan, const struct launched *launched,
           const struct proc_file *preload, struct meter *meter, struct outcome *outcome) {
    *outcome = (struct outcome){.has_fixed_addresses = launched->has_fixed_addresses,
                                .reaped_before = cpu_reaped()};
    meter_start(meter, launched->pid);
    uint64_t limit_ns = plan->timeout_ns == 0 ? UINT64_MAX : meter->start_ns + plan->timeout_ns;
    uint64_t next_ns = meter->start_ns + plan->sample_ns;
    while (!reap(plan, launched, preload, meter, outcome)) {
        uint64_t now = monotonic_ns();
        if (now >= limit_ns && !outcome->timed_out) {
            outcome->timed_out = true;
            end_program(launched->pid);
        }
        take_hold_again(plan, launched, meter, outcome);
        if (now >= next_ns) {
            meter_sample(meter);
            next_ns = now + plan->sample_ns;
        }
        uint64_t due_ns = next_ns < limit_ns || outcome->timed_out ? next_ns : limit_ns;
        int number = sleep_until(is_exec_near(outcome, now) ? now + EXEC_POLL_NS : due_ns);
        if (number != 0 && number != SIGCHLD) {
            outcome->interrupted = number;
            end_program(launched->pid);
        }
    }
    outcome->leaves_others = end_what_is_left(launched->pid, outcome);
    outcome->is_counted = counter_take(launched->counter_fd, &outcome->instructions);
    if (outcome->is_counted)
        outcome->instructions -= outcome->instructions_before;
    curve_finish(&meter->curve);
}
