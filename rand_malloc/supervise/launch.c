/* Starting the program: see launch.h.
 *
 * The child waits on a pipe until PTRACE_SEIZE has been done, so the exec and
 * the exit are both seen.  No system call is traced and no thread or child is
 * followed, unless system calls are counted: the program stops once at its
 * exec, once at its exit, and for each signal it receives.  PTRACE_O_EXITKILL
 * takes the program down with us.
 * Source: ptrace(2), personality(2), prctl(2).
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "counter.h"
#include "touch.h"

enum step {
    STEP_AFFINITY,
    STEP_THP,
    STEP_USER,
    STEP_EXEC
};

const char *launch_step_name(int step) {
    static const char *const names[] = {"pin to the core", "switch huge pages off",
                                        "become the user", "execute"};
    return names[step];
}

bool launch_step_is_exec(int step) {
    return step == STEP_EXEC;
}

static _Noreturn void give_up(int error_fd, int step) {
    struct launch_error error = {step, errno};
    if (write(error_fd, &error, sizeof error) != sizeof error)
        _exit(126);
    _exit(127);
}

/* Of this process, from which the program inherits it; returns whether addresses are fixed. */
static bool fix_addresses(bool is_random) {
    int persona = personality(0xffffffff);
    if (persona == -1)
        return false;
    if (((persona & ADDR_NO_RANDOMIZE) != 0) == is_random)
        (void)personality((unsigned long)persona ^ ADDR_NO_RANDOMIZE);
    return (personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0;
}

static void set_up(const struct plan *plan, int error_fd) {
    if (plan->cpu >= 0) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET((size_t)plan->cpu, &cpus);
        if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
            give_up(error_fd, STEP_AFFINITY);
    }
    if (!plan->keep_thp && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
        give_up(error_fd, STEP_THP);
}

/* Standard input carries orders for supervise: the service gets none of it. */
static void become_service(const struct plan *plan, int error_fd) {
    const struct passwd *user = plan->user;
    if (user != NULL && (initgroups(user->pw_name, user->pw_gid) != 0 ||
                         setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        give_up(error_fd, STEP_USER);
    if (!plan->is_service)
        return;
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
        give_up(error_fd, STEP_EXEC);
    /* Should this very supervisor be killed; others of the tree are then left. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

/* The child; wait_fd reads end of file once the parent has taken hold. */
static _Noreturn void become_program(const struct plan *plan, int wait_fd, int error_fd) {
    char nothing;
    sigset_t none;
    (void)setpgid(0, 0);
    set_up(plan, error_fd);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    become_service(plan, error_fd);
    while (read(wait_fd, &nothing, 1) < 0 && errno == EINTR) {
    }
    (void)execvpe(plan->command[0], plan->command, plan->environment);
    give_up(error_fd, STEP_EXEC);
}

/* Keep out of the program's way: sample from another core where there is one. */
static void leave_core(int cpu) {
    cpu_set_t cpus;
    if (cpu < 0 || sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < 2)
        return;
    CPU_CLR((size_t)cpu, &cpus);
    (void)sched_setaffinity(0, sizeof cpus, &cpus);
}

bool launch_trace(const struct plan *plan, pid_t pid) {
    long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
    if (plan->counts_syscalls)
        options |= PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
    return ptrace(PTRACE_SEIZE, pid, NULL, options) == 0;
}

bool launch(const struct plan *plan, struct launched *launched) {
    int hold[2];
    int errors[2];
    if (pipe2(hold, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0)
        return false;
    launched->has_fixed_addresses = fix_addresses(plan->aslr);
    pid_t pid = fork();
    if (pid < 0)
        return false;
    if (pid == 0) {
        close(hold[1]);
        become_program(plan, hold[0], errors[1]);
    }
    (void)setpgid(pid, pid);
    launched->is_traced = !plan->is_service && launch_trace(plan, pid);
    launched->pid = pid;
    launched->counter_fd = plan->is_service ? -1 : counter_open_instructions(pid);
    launched->error_fd = errors[0];
    close(errors[1]);
    touch_huge_pages(plan->warm_bytes);
    close(hold[0]);
    close(hold[1]);
    leave_core(plan->cpu);
    return true;
}

bool launch_failed(const struct launched *launched, struct launch_error *error) {
    ssize_t got = read(launched->error_fd, error, sizeof *error);
    close(launched->error_fd);
    return got == sizeof *error;
}
