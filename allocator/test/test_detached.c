/* test_detached.c - threads leave no heap behind, though the C library frees in the last moments of
 * one that is detached what it had for others, whose stacks are too much, and allocates where it
 * sets a value that exgen sets, too.
 *
 * EXGEN_CONF sets `timer`: to start a thread there would wait for a lock that the C library holds.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

enum {
    N_ROUNDS = 50,
    N_THREADS = 20,
    N_TRIES = 300000,
    N_KEYS = 40,           /* glibc has room for 32 in each thread */
    STACK_BYTES = 8 << 20, /* of so many at once glibc keeps no more than 40 MiB */
};

/* Nothing where it is another C library. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

static size_t n_at_start; /* threads */
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
    for (size_t i = 0; count_threads() > n_at_start + 1; i++) { /* the library's may have come */
        EXPECT(i < N_TRIES);
        usleep(100);
    }
}

static void detached_threads_leave_none(void) {
    pthread_attr_t attributes;
    EXPECT(pthread_attr_init(&attributes) == 0);
    EXPECT(pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    EXPECT(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    EXPECT(pthread_barrier_init(&all_are_there, NULL, N_THREADS + 1) == 0);
    for (size_t i = 0; i < N_ROUNDS; i++)
        start_and_end_threads(&attributes);
    EXPECT(stats().all_superblocks <= 2);
}

static void *set_value(void *key) {
    EXPECT(pthread_setspecific(*(pthread_key_t *)key, key) == 0);
    return NULL;
}

static void threads_with_many_keys_leave_none(void) {
    pthread_key_t keys[N_KEYS];
    for (size_t i = 0; i < N_KEYS; i++)
        EXPECT(pthread_key_create(&keys[i], NULL) == 0);
    for (size_t i = 0; i < N_THREADS; i++)
        run_thread(set_value, &keys[N_KEYS - 1]);
    EXPECT(stats().all_superblocks <= 2);
}

/* Of glibc 2. */
static int minor_version(void) {
    return gnu_get_libc_version == NULL ? 0 : atoi(strchr(gnu_get_libc_version(), '.') + 1);
}

int main(void) {
    threads_with_many_keys_leave_none(); /* which come before anything is allocated */
    if (minor_version() < 35) {
        fprintf(stderr, "skipped: not glibc 2.35 or later\n");
        return 77;
    }
    n_at_start = count_threads();
    detached_threads_leave_none();
    return test_passed();
}
