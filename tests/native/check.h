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

static int n_failed;

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
