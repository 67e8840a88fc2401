/* test_second_thread.c - the single-threaded library names a second thread's call and ends. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "exgen.h"
#include "test.h"

static const char message[] =
    "exgen: a second thread called libexgen-st, which is for programs with one; use libexgen\n";
static void *block;

static void *allocate(void *unused) {
    (void)unused;
    return exgen_malloc(10);
}

static void *release(void *unused) {
    exgen_free(block);
    return unused;
}

static void *release_nothing(void *unused) {
    exgen_free(NULL);
    return unused;
}

static uint64_t run_second(void *(*function)(void *)) {
    pthread_t thread;
    block = exgen_malloc(10);
    return (uint64_t)(pthread_create(&thread, NULL, function, NULL) + pthread_join(thread, NULL));
}

static uint64_t second_allocates(void) {
    return run_second(allocate);
}

static uint64_t second_frees(void) {
    return run_second(release);
}

static uint64_t second_frees_null(void) {
    return run_second(release_nothing);
}

int main(void) {
    static const scenario fatal_ones[] = {second_allocates, second_frees};
    for (size_t i = 0; i < 2; i++) {
        struct outcome o = run_in_child(fatal_ones[i], "");
        EXPECT(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGABRT);
        EXPECT(strcmp(o.output, message) == 0);
    }
    EXPECT(run_in_child(second_frees_null, "").status == 0);
    return test_passed();
}
