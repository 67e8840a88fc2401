/* check.h - what native tests share.  Failures are counted and named; a test begins as failed and
 * must print "passed". */
#ifndef TESTS_NATIVE_CHECK_H
#define TESTS_NATIVE_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the test where nothing can go on. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Defines a test, which `run_tests` runs: those of a file in the order in which they stand. */
#define TEST(name)                                                                                 \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void add_##name(void) {                                    \
        tests[n_tests++] = name;                                                                   \
    }                                                                                              \
    static void name(void)

static void (*tests[64])(void);
static int n_tests, n_failed;

static inline void run_tests(void) {
    CHECK(n_tests > 0);
    for (int i = 0; i < n_tests; i++)
        tests[i]();
}

static inline void require(bool is_true, const char *what) {
    if (is_true)
        return;
    n_failed++;
    fprintf(stderr, "%s\n", what);
}

/* The status main returns. */
static inline int verdict(void) {
    if (n_failed == 0)
        puts("passed");
    return n_failed != 0;
}

#endif
