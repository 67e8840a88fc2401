/* One loop around a service: see tend.h.
 *
 * Reap what has ended, sample when due, then sleep until a signal, a line or the next sample.
 * A sample walks page tables, so the pause after it is at least WALK_SHARE times as long.
 */
#include "tend.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "json.h"
#include "meter.h"
#include "tree.h"
#include "watch.h"

struct service {
    const struct plan *plan;
    pid_t pid;       /* of the process that was started; 0 once it was reaped */
    int signals;     /* signalfd */
    char number[8];  /* what is known of the next line of standard input */
    size_t n_digits; /* in it */
    int interrupted; /* signal that asked this process to stop; 0: none */
    bool is_over;    /* the service is to end */
    uint64_t next_ns;
    struct tree tree;
    struct cpu_account cpu;
};

/* ---- the report ---- */

static struct json begin_line(const struct service *service, const char *event) {
    struct json json = json_to(service->plan->report_fd);
    json_open(&json, NULL);
    json_text(&json, "event", event);
    json_integer(&json, "time_ns", monotonic_ns());
    return json;
}

static void end_line(struct service *service, struct json *json) {
    json_close(json);
    if (!json_finish(json))
        service->is_over = true; /* the reader is gone */
}

static void report_start(struct service *service) {
    struct json json = begin_line(service, "start");
    json_text(&json, "schema", "supervise.service");
    json_integer(&json, "version", 1);
    json_signed(&json, "pid", service->pid);
    end_line(service, &json);
}

static void report_exit(struct service *service, int status) {
    struct json json = begin_line(service, "exit");
    if (WIFSIGNALED(status)) {
        json_null(&json, "exit_status");
        json_signed(&json, "signal", WTERMSIG(status));
    } else {
        json_signed(&json, "exit_status", WEXITSTATUS(status));
        json_null(&json, "signal");
    }
    end_line(service, &json);
}

static void report_use(struct service *service, const char *event) {
    struct tree_use use;
    tree_walk(&service->tree);
    tree_measure(&service->tree, &use);
    struct json json = begin_line(service, event);
    json_integer(&json, "processes", service->tree.n);
    json_integer(&json, "anon_bytes", use.anon);
    json_integer(&json, "lazy_free_bytes", use.lazy);
    json_integer(&json, "shared_bytes", use.shared);
    json_integer(&json, "file_bytes", use.file);
    json_integer(&json, "unshared_processes", use.n_unshared);
    json_integer(&json, "threads", service->tree.n_threads);
    json_integer(&json, "cpu_ns", cpu_of_tree(&service->cpu, &service->tree));
    end_line(service, &json);
}

static void sample(struct service *service) {
    uint64_t before = monotonic_ns();
    report_use(service, "sample");
    uint64_t after = monotonic_ns();
    uint64_t pause = (after - before) * WALK_SHARE;
    service->next_ns =
        after + (pause > service->plan->sample_ns ? pause : service->plan->sample_ns);
}

/* ---- signals and orders ---- */

static void send(struct service *service, int number) {
    if (service->pid != 0) {
        (void)kill(service->pid, number);
        return;
    }
    /* The first process has left daemons behind: they are the service. */
    tree_walk(&service->tree);
    for (size_t i = 0; i < service->tree.n; i++)
        (void)kill(service->tree.pids[i], number);
}

static void take_byte(struct service *service, char byte) {
    if (byte != '\n') {
        if (service->n_digits < sizeof service->number - 1)
            service->number[service->n_digits++] = byte;
        return;
    }
    service->number[service->n_digits] = '\0';
    service->n_digits = 0;
    int number = atoi(service->number);
    if (number > 0)
        send(service, number);
    else
        service->next_ns = 0; /* a sample, now */
}

static void read_orders(struct service *service) {
    char bytes[64];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR)
        return;
    service->is_over = service->is_over || got <= 0;
    for (ssize_t i = 0; i < got; i++)
        take_byte(service, bytes[i]);
}

static void read_signals(struct service *service) {
    struct signalfd_siginfo info;
    while (read(service->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            service->interrupted = (int)info.ssi_signo;
            service->is_over = true;
        }
    }
}

static void sleep_until_due(struct service *service) {
    struct pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {service->signals, POLLIN, 0}};
    uint64_t now = monotonic_ns();
    uint64_t left_ms = service->next_ns > now ? (service->next_ns - now) / 1000000 + 1 : 0;
    if (poll(sources, 2, (int)left_ms) <= 0)
        return;
    if (sources[0].revents != 0)
        read_orders(service);
    if (sources[1].revents != 0)
        read_signals(service);
}

/* ---- the loop ---- */

/* Reap everything that has ended; true when nothing is left. */
static bool reap(struct service *service) {
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
        if (pid == service->pid) {
            service->pid = 0;
            report_exit(service, status);
        }
    }
    return pid < 0 && errno == ECHILD;
}

int tend(const struct plan *plan, const struct launched *launched) {
    static struct service service;
    sigset_t signals;
    watched_signals(&signals);
    service = (struct service){.plan = plan, .pid = launched->pid};
    service.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    (void)signal(SIGPIPE, SIG_IGN);
    report_start(&service);
    while (!service.is_over && !reap(&service)) {
        if (monotonic_ns() >= service.next_ns)
            sample(&service);
        sleep_until_due(&service);
    }
    tree_end();
    report_use(&service, "end");
    return service.interrupted;
}
