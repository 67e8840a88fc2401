/* test.h - the few lines every test program shares.
 *
 * A program counts as failed until it reaches `return test_passed()`; EXPECT
 * ends it with the condition, the place and, if set, the seed.
 */
#ifndef EXGEN_TEST_H
#define EXGEN_TEST_H

#include <dirent.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exgen.h"

static uint64_t test_seed;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected %s (seed %llu)\n", __FILE__, __LINE__, #condition,    \
                    (unsigned long long)test_seed);                                                \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline int test_passed(void) {
    printf("passed\n");
    return 0;
}

static inline struct exgen_stats stats(void) {
    struct exgen_stats s;
    exgen_get_stats(&s, sizeof s);
    return s;
}

/* What it returned. */
static inline void *run_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    void *returned;
    EXPECT(pthread_create(&thread, NULL, function, argument) == 0);
    EXPECT(pthread_join(thread, &returned) == 0);
    return returned;
}

static inline size_t count_threads(void) {
    size_t n = 0;
    DIR *tasks = opendir("/proc/self/task");
    EXPECT(tasks != NULL);
    for (const struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks))
        n += task->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* Pages from `start` on, where one begins, that are in memory. */
static inline size_t test_resident_pages(const void *start, size_t bytes) {
    unsigned char seen[4096];
    size_t n_pages = bytes / (size_t)sysconf(_SC_PAGESIZE);
    size_t n = 0;
    EXPECT(n_pages <= sizeof seen && mincore((void *)(uintptr_t)start, bytes, seen) == 0);
    for (size_t i = 0; i < n_pages; i++)
        n += seen[i] & 1;
    return n;
}

/* A small generator with a state of its own (splitmix64, Steele et al. 2014). */
static inline uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
