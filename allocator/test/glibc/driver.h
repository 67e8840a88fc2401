/* driver.h - main of a test of the GNU C library, included at its end. */
#include "harness.h"

#ifdef IS_OLD_STYLE /* TEST_FUNCTION is a call */
int main(void) {
    return TEST_FUNCTION;
}
#else
#ifndef TEST_FUNCTION
#define TEST_FUNCTION do_test
#endif
int main(void) {
    int result = TEST_FUNCTION();
    return result != 0 ? result : n_failed > 0;
}
#endif
