/* test_timer.c - with the setting `timer` a thread of the library gives back what a thread holds
 * that rests, while no other works; in a process with one thread and in the child of a fork, too;
 * it does not keep a process from its end.
 *
 * EXGEN_CONF has it look every millisecond; the test waits until it has, however long that takes.
 * With STORAGE_BYTES the program has more thread-local storage than the thread's stack, of which
 * glibc takes it, and the thread gets the usual one.
 * QEMU's user emulation (7.2) aborts where the child of a fork starts a thread and the parent had
 * more than one, whatever the program.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"
#include "exgen.h"
#include "system/os.h"
#include "test.h"
#include "thread/timer.h"

#ifndef STORAGE_BYTES
#define STORAGE_BYTES 1
#endif
#ifndef __has_feature
#define __has_feature(name) 0
#endif

enum {
    N_BLOCKS = 200,
    BYTES = 50000
};

static _Thread_local __attribute__((used)) char much_storage[STORAGE_BYTES];
static pthread_barrier_t barrier;
static char *freed; /* memory that the thread holds and does not use */

static void burst(void *blocks[N_BLOCKS]) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = memset(exgen_malloc(BYTES), 1, BYTES);
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (i % 10 != 0)
            exgen_free(blocks[i]);
    freed = (char *)blocks[5] + BYTES / 2;
}

static void free_the_rest(void *blocks[N_BLOCKS]) {
    for (size_t i = 0; i < N_BLOCKS; i += 10)
        exgen_free(blocks[i]);
}

static void *burst_and_rest(void *argument) {
    void *blocks[N_BLOCKS];
    burst(blocks);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    free_the_rest(blocks);
    return argument;
}

static bool is_resident(const char *address) {
    size_t page = os_page_bytes();
    return test_resident_pages((void *)round_down((uintptr_t)address, page), page) == 1;
}

static void wait_until_it_is_gone(void) {
    while (is_resident(freed))
        os_sleep_ms(1);
}

static void what_a_resting_thread_holds_goes(void) {
    pthread_t thread;
    exgen_free(exgen_malloc(1));
    pthread_barrier_init(&barrier, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, burst_and_rest, NULL) == 0);
    pthread_barrier_wait(&barrier);
    wait_until_it_is_gone();
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    EXPECT(exgen_validate_heap());
}

static void work(void) {
    enum {
        N_SMALL = 100,
        N_BYTES = 3000
    };
    void *blocks[N_SMALL];
    for (size_t k = 0; k < N_SMALL; k++)
        blocks[k] = exgen_malloc(N_BYTES);
    for (size_t k = 0; k < N_SMALL; k++)
        exgen_free(blocks[k]);
    os_sleep_ms(1);
}

/* Work of a thread that is alone, for as long as its memory ages before it goes back. */
static void work_until_there_is_a_timer(void) {
    enum {
        N_MOST = 5000
    };
    size_t n_before = count_threads(); /* a sanitizer has its own, at times */
    for (size_t i = 0; i < N_MOST && count_threads() == n_before; i++)
        work();
    EXPECT(count_threads() > n_before);
}

static void what_the_only_thread_holds_goes(void) {
    void *blocks[N_BLOCKS];
    work_until_there_is_a_timer();
    burst(blocks);
    wait_until_it_is_gone();
    free_the_rest(blocks);
}

static void allocate_all(void **blocks) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = exgen_malloc(1);
}

/* A free does not start it, see timer.h. */
static void *free_all(void *blocks) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        exgen_free(((void **)blocks)[i]);
    EXPECT(timer_is_missing());
    return NULL;
}

static void *free_all_and_rest(void *blocks) {
    free_all(blocks);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void the_end_of_a_thread_starts_it(void) {
    void *blocks[N_BLOCKS];
    allocate_all(blocks);
    run_thread(free_all, blocks);
    EXPECT(!timer_is_missing());
}

static void another_starts_it_for_one_that_frees(void) {
    void *blocks[N_BLOCKS];
    pthread_t thread;
    allocate_all(blocks);
    pthread_barrier_init(&barrier, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, free_all_and_rest, blocks) == 0);
    pthread_barrier_wait(&barrier);
    exgen_free(exgen_malloc(BYTES));
    EXPECT(!timer_is_missing());
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

static void the_child_of_a_fork_has_its_own(void (*works)(void)) {
    enum {
        MOST_MS = 60000
    };
    int status = 0;
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        works();
        _exit(0);
    }
    for (size_t left_ms = MOST_MS; waitpid(child, &status, WNOHANG) == 0; left_ms--) {
        if (left_ms == 0)
            kill(child, SIGKILL);
        os_sleep_ms(1);
    }
    EXPECT(status == 0);
}

static void *burst_and_end(void *argument) {
    void *blocks[N_BLOCKS];
    do
        work();
    while (timer_is_missing());
    burst(blocks);
    return argument;
}

/* The first thread has no heap, so that none has one in between. */
static void it_ends_with_the_heaps_and_starts_anew(void) {
    for (int i = 0; i < 4; i++) {
        run_thread(burst_and_end, NULL);
        while (!timer_is_missing())
            os_sleep_ms(1);
        EXPECT(!is_resident(freed));
    }
}

__attribute__((unused)) static void use_stack_and_signals(void) {
    volatile char much[300000];
    sigset_t blocked;
    for (size_t i = sizeof much; i > 0; i -= 1000)
        much[i - 1] = 1;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (sigismember(&blocked, SIGTERM) != 0)
        _exit(1);
}

/* The C library ends a process with its last thread, and counts the library's among them; the last
 * runs exit handlers. */
static void the_process_ends_with_its_last_thread(void) {
    what_the_only_thread_holds_goes();
    EXPECT(!timer_is_missing());
#if !__has_feature(thread_sanitizer) /* whose state of a thread is gone by then */
    EXPECT(atexit(use_stack_and_signals) == 0);
#endif
    pthread_exit(NULL);
}

int main(int count, char **arguments) {
    bool emulated = count == 2 && strcmp(arguments[1], "emulated") == 0;
    if (emulated)
        printf("children of a fork: skipped, not possible in the emulator\n");
    if (!os_fence_threads()) {
        fprintf(stderr, "skipped: the system has no membarrier\n");
        return 77;
    }
    the_child_of_a_fork_has_its_own(it_ends_with_the_heaps_and_starts_anew);
    the_child_of_a_fork_has_its_own(the_end_of_a_thread_starts_it);
    the_child_of_a_fork_has_its_own(another_starts_it_for_one_that_frees);
    what_the_only_thread_holds_goes();
    if (!emulated) {
        the_child_of_a_fork_has_its_own(what_the_only_thread_holds_goes);
        the_child_of_a_fork_has_its_own(the_process_ends_with_its_last_thread);
    }
    what_a_resting_thread_holds_goes();
    if (!emulated)
        the_child_of_a_fork_has_its_own(what_a_resting_thread_holds_goes);
    return test_passed();
}
