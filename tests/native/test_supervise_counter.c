/* The plumbing of a counter, tried with an event that every machine has: page faults.
 *
 * The subject touches 64 MiB after its exec, hence at least 16384 faults; what
 * the child does before its exec is not counted.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counter.h"

enum {
    MIB = 1 << 20,
    SKIPPED = 77
};

static _Noreturn void become_subject(const char *subject, const char *mode, int hold) {
    char nothing;
    size_t bytes = (size_t)256 * MIB;
    (void)!read(hold, &nothing, 1);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        memset(memory, 1, bytes);
    (void)execl(subject, subject, mode, (char *)NULL);
    _exit(99);
}

/* Count the faults of one run; false when it could not be counted or failed. */
static bool count(const char *subject, const char *mode, uint64_t *faults) {
    int hold[2];
    if (pipe2(hold, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        close(hold[1]);
        become_subject(subject, mode, hold[0]);
    }
    int fd = counter_open(pid, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
    close(hold[0]);
    close(hold[1]);
    int status = -1;
    (void)waitpid(pid, &status, 0);
    if (fd < 0)
        exit(SKIPPED); /* no perf events at all here, as in many containers */
    return counter_take(fd, faults) && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    uint64_t spike = 0;
    uint64_t child = 0;
    uint64_t nothing = 0;
    if (argc != 2)
        return 2;
    bool passed = count(argv[1], "spike", &spike) && spike >= 16384 && spike < 20000;
    passed =
        passed && count(argv[1], "spike-in-a-child", &child) && child >= 16384 && child < 20000;
    passed = passed && !counter_take(-1, &nothing) && nothing == 0;
    if (!passed)
        fprintf(stderr, "faults counted: %llu, with a child: %llu\n", (unsigned long long)spike,
                (unsigned long long)child);
    return passed ? 0 : 1;
}
