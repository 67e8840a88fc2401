/* test_detached.c - threads that allocate nothing leave no heap behind, though the C library frees
 * in the last moments of one that is detached what it had for others, whose stacks are too much.
 *
 * EXGEN_CONF sets `timer`: to start a thread there would wait for a lock that the C library holds.
 */
#include <pthread.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

enum {
    N_ROUNDS = 50,
    N_THREADS = 20,
    STACK_BYTES = 8 << 20 /* of so many at once glibc keeps no more than 40 MiB */
};

static pthread_barrier_t all_are_there;

static void *wait_for_all(void *unused) {
    pthread_barrier_wait(&all_are_there);
    return unused;
}

static void start_and_end_threads(const pthread_attr_t *attributes) {
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, attributes, wait_for_all, NULL) == 0);
    }
    pthread_barrier_wait(&all_are_there);
    while (count_threads() > 2) /* the library's may have come */
        usleep(100);
}

int main(void) {
    pthread_attr_t attributes;
    EXPECT(pthread_attr_init(&attributes) == 0);
    EXPECT(pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    EXPECT(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    EXPECT(pthread_barrier_init(&all_are_there, NULL, N_THREADS + 1) == 0);
    for (size_t i = 0; i < N_ROUNDS; i++)
        start_and_end_threads(&attributes);
    EXPECT(stats().all_superblocks <= 2);
    return test_passed();
}
