/* early_handlers.c - a library that registers handlers of forks, which allocate, when it is loaded.
 */
#include <pthread.h>
#include <stdlib.h>

extern int n_handled;
int n_handled;

static void allocate(void) {
    for (size_t bytes = 100; bytes < 2000000; bytes *= 10)
        free(malloc(bytes));
    n_handled++;
}

__attribute__((constructor)) static void watch(void) {
    pthread_atfork(allocate, allocate, allocate);
}
