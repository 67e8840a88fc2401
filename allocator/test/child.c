/* child.c - run a scenario in a forked child; see child.h. */
#include "child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* Shared with the child. */
static struct outcome *shared;

void expect_message(const char *what, const void *address) {
    snprintf(shared->expected, sizeof shared->expected, "exgen: %s: 0x%llx\n", what,
             (unsigned long long)(uintptr_t)address);
}

static void read_all(int file, char *buffer, size_t capacity) {
    size_t length = 0;
    ssize_t got;
    while (length + 1 < capacity && (got = read(file, buffer + length, capacity - 1 - length)) > 0)
        length += (size_t)got;
    buffer[length] = '\0';
}

/* QEMU's user emulation adds a line of its own when the program under it dies. */
static void drop_emulators_line(char *output) {
    char *line = strstr(output, "qemu: uncaught target signal");
    if (line != NULL)
        *line = '\0';
}

struct outcome run_in_child(scenario run, const char *conf) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("EXGEN_CONF", conf, 1);
        shared->value = run();
        _exit(0);
    }
    close(ends[1]);
    char output[sizeof shared->output];
    read_all(ends[0], output, sizeof output);
    drop_emulators_line(output);
    close(ends[0]);
    struct outcome o;
    EXPECT(waitpid(child, &shared->status, 0) == child);
    o = *shared;
    snprintf(o.output, sizeof o.output, "%s", output);
    munmap(shared, sizeof *shared);
    return o;
}

uint64_t run_well(scenario run, const char *conf) {
    struct outcome o = run_in_child(run, conf);
    fprintf(stderr, "%s", o.output);
    EXPECT(o.status == 0);
    return o.value;
}
