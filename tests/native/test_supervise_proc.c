/* A mapped file is known by its numbers, and by its path where a file system shows others.  A child
 * that became root holds up no end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"
#include "tree.h"

static bool is_found(const struct proc_file *file) {
    bool is_mapped = false;
    return proc_maps_file(getpid(), file, &is_mapped) && is_mapped;
}

/* In a process that gives up root: its child keeps it, and does not wait for a child that did not.
 */
static _Noreturn void end_below_root(void) {
    int ready[2];
    char byte = 0;
    if (pipe(ready) != 0)
        _exit(1);
    (void)alarm(10);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0 && (setuid(65534) != 0 || write(ready[1], "", 1) != 1))
            _exit(1);
        (void)close(ready[1]);
        (void)alarm(60);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    bool is_begun = child > 0 && read(ready[0], &byte, 1) == 1;
    if (setuid(65534) != 0)
        _exit(errno == EINVAL ? 0 : 1); /* a namespace without that user: nothing to test */
    if (!is_begun)
        _exit(1);
    tree_end();
    _exit(0);
}

static bool ends_where_a_child_became_root(void) {
    int status = 0;
    if (geteuid() != 0)
        return true;
    pid_t pid = fork();
    if (pid == 0) {
        (void)setpgid(0, 0);
        end_below_root();
    }
    bool is_good = waitpid(pid, &status, 0) == pid && status == 0;
    (void)kill(-pid, SIGKILL);
    return is_good;
}

int main(void) {
    struct proc_file self;
    if (!proc_find_file("/proc/self/exe", &self))
        return 1;
    struct proc_file by_path = self;
    struct proc_file by_numbers = self;
    by_path.device++;
    by_numbers.path[1] = '\0';
    struct proc_file neither = by_path;
    neither.path[1] = '\0';
    bool is_good = is_found(&by_path) && is_found(&by_numbers) && !is_found(&neither);
    return is_good && ends_where_a_child_became_root() ? 0 : 1;
}
