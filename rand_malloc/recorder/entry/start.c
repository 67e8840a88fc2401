/* start.c - the recorder in the life of a process: it is loaded, it forks.
 *
 * Where children are not followed, MALLOC_TUNER_RECORD and our LD_PRELOAD entry are taken out
 * of the environment when the library is loaded, so the program's children run bare (exec in
 * the process itself: hooks_exec.c).
 */
#include "base/clock.h"
#include "process/process.h"
#include "thread/record.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static uint64_t fork_stamp; /* taken before the latest fork */

static void before_fork(void) {
    fork_stamp = clock_stamp();
}

/* In the child of a fork; its only thread is the one that forked. */
static void after_fork_in_child(void) {
    uint32_t fork_lane = own_lane != NULL ? own_lane->home : 0;
    lanes_reset();
    process_forked(fork_stamp, fork_lane);
}

/* fork() runs the handlers; this one is made to run none. */
RECORDER_EXPORT pid_t _Fork(void) {
    static pid_t (*real_fork)(void);
    if (real_fork == NULL) {
        void *found = dlsym(RTLD_NEXT, "_Fork");
        memcpy(&real_fork, &found, sizeof found);
    }
    if (real_fork == NULL) {
        errno = ENOSYS;
        return -1;
    }
    before_fork();
    pid_t child = real_fork();
    if (child == 0)
        after_fork_in_child();
    return child;
}

static bool is_our_path(const char *path, size_t n_bytes) {
    static const char name[] = "librecorder.so";
    size_t n = sizeof name - 1;
    return n_bytes >= n && memcmp(path + n_bytes - n, name, n) == 0 &&
           (n_bytes == n || path[n_bytes - n - 1] == '/');
}

/* Takes our entry out of a list separated by colons or spaces, in place. */
static void remove_our_path(char *list) {
    char *to = list;
    for (char *from = list; *from != '\0';) {
        size_t n = strcspn(from, ": ");
        size_t with_separator = n + (from[n] != '\0');
        if (!is_our_path(from, n)) {
            memmove(to, from, with_separator);
            to += with_separator;
        }
        from += with_separator;
    }
    while (to > list && (to[-1] == ':' || to[-1] == ' '))
        to--;
    *to = '\0';
}

/* Leaves the environment as the program would have it without us. */
static void clean_environment(void) {
    char **to = environ;
    for (char **from = environ; *from != NULL; from++) {
        char *variable = *from;
        if (strncmp(variable, RECORD_VARIABLE, sizeof RECORD_VARIABLE - 1) == 0)
            continue;
        if (strncmp(variable, PRELOAD_VARIABLE, sizeof PRELOAD_VARIABLE - 1) == 0) {
            remove_our_path(variable + sizeof PRELOAD_VARIABLE - 1);
            if (variable[sizeof PRELOAD_VARIABLE - 1] == '\0')
                continue;
        }
        *to++ = variable;
    }
    *to = NULL;
}

__attribute__((constructor)) static void start(void) {
    if (process_start())
        pthread_atfork(before_fork, NULL, after_fork_in_child);
    if (!process_is_following())
        clean_environment();
}
