/* test_fork_stdio.c - a thousand forks (or the argument) while other threads use stdio and dlopen,
 * which allocate with locks of the C library held.
 *
 * The C library takes the lock of its list of streams on the way into a fork, and fflush(NULL)
 * holds it while it waits for a stream whose thread may be inside malloc.  Whoever holds locks of
 * the allocator and then waits for that list waits for ever (glibc's bug 19431).  A deadlock is a
 * time-out here.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum {
    N_FORKS = 1000,
    LINE_BYTES = 300000, /* grows through all kinds of blocks */
    N_SHORT_LINES = 64,
    N_YIELDS = 16
};

static bool stop;     /* atomic */
extern int n_handled; /* calls of other handlers, which allocate, see early_handlers.c */
static char path[] = "/tmp/exgen-fork-XXXXXX";

static bool goes_on(void) {
    return !__atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void write_lines(void) {
    int file = mkstemp(path);
    EXPECT(file >= 0);
    FILE *stream = fdopen(file, "w");
    for (size_t i = 0; i < N_SHORT_LINES; i++)
        fprintf(stream, "%0*d\n", (int)(i * 37 % 500) + 1, 0);
    for (size_t i = 0; i < LINE_BYTES; i++)
        fputc('x', stream);
    fputc('\n', stream);
    EXPECT(fclose(stream) == 0);
}

/* A growing buffer inside the stream's lock. */
static void read_lines(void) {
    FILE *stream = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    EXPECT(stream != NULL);
    while (getline(&line, &capacity, stream) > 0) {
    }
    free(line);
    fclose(stream);
}

static void *read_for_ever(void *arg) {
    while (goes_on())
        read_lines();
    return arg;
}

/* The lock of the list of streams, then that of each stream.  It is not fair, so others get their
 * turn. */
static void *flush_for_ever(void *arg) {
    while (goes_on()) {
        fflush(NULL);
        for (size_t i = 0; i < N_YIELDS; i++)
            sched_yield();
    }
    return arg;
}

static void *open_for_ever(void *arg) {
    while (goes_on()) {
        char *text = NULL;
        size_t length = 0;
        FILE *stream = open_memstream(&text, &length);
        EXPECT(stream != NULL);
        fprintf(stream, "%5000d %f", 1, 1e300);
        fclose(stream);
        free(text);
    }
    return arg;
}

/* The loader's lock, with allocations and constructors under it. */
static void *load_for_ever(void *arg) {
    while (goes_on()) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        EXPECT(dlopen("there is no such library", RTLD_NOW) == NULL && dlerror() != NULL);
        if (library != NULL)
            dlclose(library);
    }
    return arg;
}

static void *allocate_for_ever(void *arg) {
    for (size_t i = 0; goes_on(); i++) {
        size_t size = i % 5 == 0 ? 400000 : i * 61 % 30000;
        char *block = malloc(size + 1);
        EXPECT(block != NULL);
        block[size] = 1;
        free(block);
    }
    return arg;
}

/* Everything works in the child, whatever the other threads were at. */
static void run_child(void) {
    for (size_t size = 1; size < 2000000; size *= 3)
        free(malloc(size));
    read_lines();
    _exit(0);
}

int main(int count, char **arguments) {
    int n_forks = count > 1 ? atoi(arguments[1]) : N_FORKS;
    void *(*const activities[])(void *) = {read_for_ever, read_for_ever, flush_for_ever,
                                           open_for_ever, load_for_ever, allocate_for_ever};
    enum {
        N = sizeof activities / sizeof *activities
    };
    pthread_t threads[N];
    write_lines();
    for (size_t i = 0; i < N; i++)
        EXPECT(pthread_create(&threads[i], NULL, activities[i], NULL) == 0);
    for (int i = 0; i < n_forks; i++) {
        pid_t child = fork();
        if (child == 0)
            run_child();
        int status = -1;
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    unlink(path);
    EXPECT(n_handled == 2 * n_forks);
    return test_passed();
}
