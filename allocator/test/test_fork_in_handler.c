/* test_fork_in_handler.c - a signal handler may fork, whatever malloc was doing just then.
 *
 * A timer interrupts a thread that is nearly always inside a lock of the allocator.  With
 * one thread the child returns from the handler and goes on allocating; with more it
 * ends at once, which is all that POSIX lets it do.  A fault shows as a test that hangs
 * or as a failed assertion.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

enum {
    N_FORKS = 200
};

static volatile sig_atomic_t n_forks;
static volatile sig_atomic_t n_failed;
static volatile sig_atomic_t is_child;
static volatile sig_atomic_t child_goes_on;
static _Atomic int stop;

/* One signal; the handler asks for the next when it is done, so that malloc gets on. */
static void set_timer(suseconds_t microseconds) {
    struct itimerval once = {{0, 0}, {0, microseconds}};
    setitimer(ITIMER_REAL, &once, NULL);
}

static void fork_now(int signal) {
    (void)signal;
    pid_t pid = fork();
    if (pid == 0) {
        if (!child_goes_on)
            _exit(0);
        is_child = 1;
        return;
    }
    int status = 1;
    waitpid(pid, &status, 0);
    n_failed += pid < 0 || status != 0;
    n_forks++;
    set_timer(200 + n_forks % 100);
}

static void allocate_some(uint64_t *random) {
    void *large = exgen_malloc(600000 + test_random(random) % 2000000);
    void *small = exgen_malloc(test_random(random) % 2000);
    exgen_free(large);
    exgen_free(small);
    exgen_purge();
}

static void fork_many_times(void) {
    uint64_t random = 1;
    n_forks = 0;
    set_timer(300);
    while (n_forks < N_FORKS && !is_child)
        allocate_some(&random);
    if (is_child) {
        set_timer(0);
        for (size_t i = 0; i < 20; i++)
            allocate_some(&random);
        _exit(exgen_validate_heap() ? 0 : 1);
    }
    set_timer(0);
    EXPECT(n_failed == 0);
    EXPECT(exgen_validate_heap());
}

static void *allocate_all_the_time(void *unused) {
    uint64_t random = 2;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    while (!stop)
        allocate_some(&random);
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_handler = fork_now, .sa_flags = SA_RESTART};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    child_goes_on = 1;
    fork_many_times();

    child_goes_on = 0;
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, allocate_all_the_time, NULL) == 0);
    fork_many_times();
    stop = 1;
    pthread_join(thread, NULL);
    return test_passed();
}
