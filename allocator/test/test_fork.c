/* test_fork.c - children of a process whose other threads allocate can allocate, too. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

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
    EXPECT(exgen_validate_heap());
    _exit(0);
}

int main(void) {
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, allocate_all_the_time, NULL) == 0);
    for (size_t i = 0; i < 100; i++) {
        void *block = exgen_malloc(100);
        pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0)
            child(block);
        int status;
        EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
        exgen_free(block);
    }
    stop = 1;
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return test_passed();
}
