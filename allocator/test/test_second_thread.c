/* test_second_thread.c - the single-threaded library names a second thread's call and ends. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void *resize(void *unused) {
    block = exgen_realloc(block, 40000000);
    return unused;
}

static void *purge(void *unused) {
    exgen_purge();
    return unused;
}

static void *release_nothing(void *unused) {
    exgen_free(NULL);
    return unused;
}

/* On x86-64 the thread pointer points to itself, with thread-local storage in front of it; on
 * AArch64 the storage lies behind it. */
#if defined(__x86_64__)
enum {
    POINTS_TO_ITSELF = 1
};
#else
enum {
    POINTS_TO_ITSELF = 0
};
#endif

/* A thread that libc does not know, with thread-local storage of its own, all zeros. */
static _Alignas(64) char stack_of_clone[1 << 18];
static _Alignas(64) char storage_of_clone[1 << 16];

static int allocate_in_clone(void *unused) {
    (void)unused;
    return exgen_malloc(10) != NULL;
}

static uint64_t clone_allocates(void) {
    void **self = (void **)(storage_of_clone + sizeof storage_of_clone / 2);
    if (POINTS_TO_ITSELF)
        self[0] = self[2] = self;
    block = exgen_malloc(10);
    EXPECT(clone(allocate_in_clone, stack_of_clone + sizeof stack_of_clone,
                 CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                     CLONE_SETTLS,
                 NULL, NULL, self, NULL) > 0);
    sleep(60); /* the other thread ends the process */
    return 0;
}

static uint64_t run_second(void *(*function)(void *), size_t bytes) {
    pthread_t thread;
    block = exgen_malloc(bytes);
    return (uint64_t)(pthread_create(&thread, NULL, function, NULL) + pthread_join(thread, NULL));
}

static uint64_t second_allocates(void) {
    return run_second(allocate, 10);
}

static uint64_t second_frees(void) {
    return run_second(release, 10);
}

static uint64_t second_frees_large(void) {
    return run_second(release, 10000000);
}

static uint64_t second_resizes(void) {
    return run_second(resize, 10);
}

static uint64_t second_resizes_large(void) {
    return run_second(resize, 10000000);
}

static uint64_t second_purges(void) {
    return run_second(purge, 10);
}

/* Only a second thread is to be taken for one. */
static uint64_t first_frees_foreign(void) {
    expect_message("invalid free, not a block of this heap", storage_of_clone);
    exgen_free(storage_of_clone);
    return 0;
}

static uint64_t second_frees_null(void) {
    return run_second(release_nothing, 10);
}

int main(void) {
    static const scenario fatal_ones[] = {
        second_allocates,     second_frees,  second_frees_large, second_resizes,
        second_resizes_large, second_purges, clone_allocates};
    /* Sanitizers keep their own state in thread-local storage. */
    size_t n_fatal = sizeof fatal_ones / sizeof *fatal_ones - (EXGEN_SANITIZED ? 1 : 0);
    for (size_t i = 0; i < n_fatal; i++) {
        struct outcome o = run_in_child(fatal_ones[i], "");
        EXPECT(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGABRT);
        EXPECT(strcmp(o.output, message) == 0);
    }
    struct outcome o = run_in_child(first_frees_foreign, "");
    EXPECT(strcmp(o.output, o.expected) == 0);
    EXPECT(run_in_child(second_frees_null, "").status == 0);
    return test_passed();
}
