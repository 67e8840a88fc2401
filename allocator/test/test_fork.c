/* test_fork.c - children of a process whose other threads allocate can allocate, too. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"
#include "thread/registry.h"

static _Atomic int stop;

static void *allocate_all_the_time(void *unused) {
    uint64_t random = 1;
    while (!stop) {
        void *p = exgen_malloc(test_random(&random) % 2000000);
        void *q = exgen_malloc(test_random(&random) % 2000);
        exgen_free(p);
        exgen_free(q);
    }
    return unused;
}

static void child(void *block_of_parent) {
    exgen_free(block_of_parent);
    for (size_t i = 0; i < 300; i++) {
        void *p = exgen_malloc(i * 50);
        void *q = exgen_malloc(i * 5000);
        EXPECT(p != NULL && q != NULL);
        exgen_free(p);
        exgen_free(q);
    }
    EXPECT(registry_count_threads() == 1);
    registry_forget_others(false); /* as in a handler, while the thread gets its heap */
    EXPECT(registry_count_threads() == 1 && exgen_validate_heap());
    _exit(0);
}

static void fork_once(void *block) {
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0)
        child(block);
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
}

static void fork_often(size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *block = exgen_malloc(100);
        fork_once(block);
        exgen_free(block);
    }
}

static void *fork_too(void *unused) {
    fork_often(25);
    return unused;
}

static void with_threads(void *(*work)(void *), size_t n_forks) {
    pthread_t threads[3];
    stop = 0;
    for (size_t i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, NULL) == 0);
    fork_often(n_forks);
    stop = 1;
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static pthread_barrier_t barrier;

static void allocate_large(size_t n) {
    for (size_t i = 0; i < n; i++)
        exgen_free(exgen_malloc(2000000));
}

enum {
    N_ALONE = 300, /* large blocks in a row: then their lock is biased */
    N_FORKS = 200
};

static void *allocate_when_the_other_forks(void *unused) {
    for (size_t i = 0; i < N_FORKS; i++) {
        pthread_barrier_wait(&barrier);
        allocate_large(100);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

static void *fork_without_a_heap(void *unused) {
    fork_once(NULL);
    return unused;
}

static void with_the_usual_thread_of_large_blocks(void) {
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, allocate_when_the_other_forks, NULL) == 0);
    for (size_t i = 0; i < N_FORKS; i++) {
        allocate_large(N_ALONE);
        pthread_barrier_wait(&barrier);
        fork_often(1);
        pthread_barrier_wait(&barrier);
    }
    pthread_join(thread, NULL);
}

/* As handlers that programs have registered before anything was allocated. */
static void allocate_in_handler(void) {
    allocate_large(2);
}

int main(void) {
    EXPECT(pthread_atfork(allocate_in_handler, allocate_in_handler, allocate_in_handler) == 0);
    exgen_free(exgen_malloc(1));
    run_thread(fork_without_a_heap, NULL);
    with_the_usual_thread_of_large_blocks();
    with_threads(allocate_all_the_time, 100);
    with_threads(fork_too, 25);
    return test_passed();
}
