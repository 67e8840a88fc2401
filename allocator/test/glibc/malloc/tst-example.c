/* tst-example.c - a test in the form of those of the GNU C library, which shows that
 * glibc_tests.py runs them.
 */
#include <stdlib.h>
#include <support/check.h>
#include <support/xthread.h>

static void *allocate(void *argument) {
    void *block = malloc(100);
    TEST_VERIFY(block != NULL);
    free(block);
    return argument;
}

static int do_test(void) {
    int argument;
    TEST_COMPARE(xpthread_join(xpthread_create(NULL, allocate, &argument)), &argument);
    return 0;
}

#include <support/test-driver.c>
