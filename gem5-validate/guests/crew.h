/* What guests of several threads share: SCALE and THREADS from the command line, a member of the
 * crew for each thread with the same work as the others, and a barrier.
 *
 * Members that wait spin: the simulated machine has a core for each.
 */
#ifndef CREW_H
#define CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "guest.h"

enum {
    MOST_MEMBERS = 64
};

static struct {
    size_t n_members;
    size_t scale; /* of each member */
    uint64_t (*work)(size_t member);
    uint64_t checksums[MOST_MEMBERS];
    _Alignas(64) atomic_size_t n_waiting;
    _Alignas(64) atomic_size_t n_meetings;
} crew;

/* Wait until all members are here. */
static inline void crew_meet(void) {
    size_t meeting = atomic_load(&crew.n_meetings);
    if (atomic_fetch_add(&crew.n_waiting, 1) + 1 == crew.n_members) {
        atomic_store(&crew.n_waiting, 0);
        atomic_store(&crew.n_meetings, meeting + 1);
        return;
    }
    while (atomic_load(&crew.n_meetings) == meeting)
        ;
}

static void *crew_member(void *number) {
    size_t member = (size_t)number;
    crew_meet();
    crew.checksums[member] = crew.work(member);
    return NULL;
}

/* Read SCALE and THREADS; ends the program when they are wrong. */
static inline void crew_read(int n_arguments, char **arguments) {
    crew.scale = n_arguments == 3 ? strtoul(arguments[1], NULL, 10) : 0;
    crew.n_members = n_arguments == 3 ? strtoul(arguments[2], NULL, 10) : 0;
    if (crew.scale == 0 || crew.n_members == 0 || crew.n_members > MOST_MEMBERS) {
        fprintf(stderr, "usage: %s SCALE THREADS, numbers from 1 on\n", arguments[0]);
        exit(2);
    }
}

/* Let every member do its work, the calling thread as the first; returns the exit status. */
static inline int crew_run(const char *name, uint64_t (*work)(size_t member)) {
    pthread_t threads[MOST_MEMBERS];
    crew.work = work;
    for (size_t i = 1; i < crew.n_members; i++)
        if (pthread_create(&threads[i], NULL, crew_member, (void *)i) != 0) {
            fprintf(stderr, "no thread %zu\n", i);
            return 1;
        }
    crew_member((void *)0);
    uint64_t checksum = crew.checksums[0];
    for (size_t i = 1; i < crew.n_members; i++) {
        pthread_join(threads[i], NULL);
        checksum += crew.checksums[i];
    }
    return finish(name, checksum);
}

/* Take a small block, write to it many times and free it, crew.scale times: cheap, unless the
 * block shares a cache line with one that another core writes to. */
static inline uint64_t crew_write_to_small_blocks(size_t member) {
    enum {
        BYTES = 8,
        TIMES = 20
    };
    uint64_t checksum = 0;
    for (size_t step = 0; step < crew.scale; step++) {
        volatile unsigned char *block = need(BYTES);
        for (size_t i = 0; i < BYTES; i++)
            block[i] = (unsigned char)(member + step);
        for (size_t time = 0; time < TIMES; time++)
            for (size_t i = 0; i < BYTES; i++)
                block[i]++;
        checksum += block[step % BYTES];
        free((void *)block);
    }
    return checksum;
}

#endif
