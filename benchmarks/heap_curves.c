/* heap_curves.c - small programs whose heap over time is known, for benchmarks/heap_curves.py.
 *
 *   heap_curves MODE [without]     MODE is a name of `modes` below
 *
 * Every step has its time since the start of main, in ticks, and the program sleeps until then: a
 * machine that is busy shifts single steps and stretches nothing.  With `without` the program takes
 * the same time, threads and stacks and allocates nothing: what it then has resident is its memory
 * beside the heap.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    KIB = 1024,
    MIB = 1024 * 1024,
    MOST_BLOCKS = 40000,
    TICK_MS = 2
};

static bool is_without;
static struct timespec begin;

static struct block {
    void *address;
    size_t bytes;
} blocks[MOST_BLOCKS];

/* ---- time ---- */

static void sleep_until(unsigned tick) {
    struct timespec at = begin;
    unsigned ms = tick * TICK_MS;
    at.tv_sec += ms / 1000;
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
    }
}

/* ---- blocks ---- */

static void *require(void *address) {
    if (address == NULL)
        abort();
    return address;
}

static void take(unsigned index, size_t bytes) {
    if (is_without)
        return;
    blocks[index] = (struct block){require(malloc(bytes)), bytes};
    memset(blocks[index].address, 1, bytes);
}

static void drop(unsigned index) {
    free(blocks[index].address);
    blocks[index].address = NULL;
}

static void take_range(unsigned from, unsigned to, size_t bytes) {
    for (unsigned i = from; i < to; i++)
        take(i, bytes);
}

static void drop_range(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++)
        drop(i);
}

/* 16 to 1039 bytes, the same ones every time. */
static size_t some_bytes(unsigned index) {
    return 16 + (index * 2654435761u >> 16) % 1024;
}

/* ---- one thread ---- */

static void hold(unsigned from, unsigned until, unsigned end) {
    sleep_until(from);
    take_range(0, 100, 64 * KIB);
    sleep_until(until);
    drop_range(0, 100);
    sleep_until(end);
}

static void idle_start(void) {
    hold(300, 500, 500);
}

static void idle_end(void) {
    hold(0, 200, 500);
}

static void idle_both(void) {
    hold(50, 250, 350);
}

static void bursts(void) {
    for (unsigned i = 0; i < 4; i++) {
        sleep_until(100 * i + 50);
        take_range(0, 8192, 1000);
        sleep_until(100 * i + 90);
        drop_range(0, 8192);
    }
    sleep_until(500);
}

static void fragments(void) {
    sleep_until(50);
    for (unsigned i = 0; i < 20000; i++)
        take(i, some_bytes(i));
    sleep_until(150);
    for (unsigned i = 0; i < 20000; i++)
        if (i % 4 != 0)
            drop(i);
    sleep_until(350);
    take_range(20000, 21000, 3000);
    sleep_until(450);
}

static void aligned(void) {
    sleep_until(50);
    for (unsigned i = 0; i < 1000 && !is_without; i++) {
        if (posix_memalign(&blocks[i].address, i % 2 == 0 ? 4096 : 256, 5000) != 0)
            abort();
        memset(blocks[i].address, 1, 5000);
    }
    sleep_until(300);
    drop_range(0, 1000);
    sleep_until(400);
}

/* A buffer that doubles up to 16 MiB, and another that grows by 64 KiB to 2 MiB. */
static void growth(void) {
    for (unsigned i = 0; i < 32; i++) {
        sleep_until(50 + 10 * i);
        if (is_without)
            continue;
        size_t first = i < 15 ? (size_t)KIB << i : 16 * MIB, second = (i + 1) * 64 * KIB;
        blocks[0].address = require(realloc(blocks[0].address, first));
        blocks[1].address = require(realloc(blocks[1].address, second));
        memset(blocks[0].address, 1, first);
        memset(blocks[1].address, 1, second);
    }
    sleep_until(450);
}

/* 8 blocks of 1 MiB, of which the first eighth is used. */
static void untouched(void) {
    sleep_until(50);
    for (unsigned i = 0; i < 8 && !is_without; i++) {
        blocks[i].address = require(calloc(1, MIB));
        memset(blocks[i].address, 1, MIB / 8);
    }
    sleep_until(250);
    drop_range(0, 8);
    sleep_until(350);
}

static void large(void) {
    for (unsigned i = 0; i < 8; i++) {
        sleep_until(50 + 50 * i);
        take(i, (size_t)(3 + i % 3) * MIB);
        if (i >= 2)
            drop(i - 2);
    }
    sleep_until(500);
}

/* 4 MiB stay; beside them blocks come and go, 800 each tick. */
static void churn(void) {
    take_range(0, 4096, KIB);
    for (unsigned tick = 20; tick < 400; tick++) {
        sleep_until(tick);
        for (unsigned i = 0; i < 800; i++) {
            take(5000, some_bytes(tick + i) * 4);
            drop(5000);
        }
    }
    sleep_until(500);
}

static void stack(void) {
    for (unsigned i = 0; i < 40; i++) {
        sleep_until(50 + 5 * i);
        take_range(i * 200, (i + 1) * 200, 1500);
    }
    for (unsigned i = 40; i-- > 0;) {
        sleep_until(450 - 5 * i);
        for (unsigned j = (i + 1) * 200; j-- > i * 200;)
            drop(j);
    }
    sleep_until(500);
}

static void queue(void) {
    for (unsigned i = 0; i < 80; i++) {
        sleep_until(20 + 5 * i);
        take_range(i * 200, (i + 1) * 200, 100 + 20 * i);
        if (i >= 20)
            drop_range((i - 20) * 200, (i - 19) * 200);
    }
    sleep_until(500);
}

/* Ends without exit handlers, all blocks alive. */
static void sudden_end(void) {
    sleep_until(100);
    take_range(0, 6000, KIB);
    sleep_until(400);
    _exit(0);
}

/* ---- threads ---- */

enum {
    N_THREADS = 4,
    OF_THREAD = 4096
};

static unsigned number_of(void *argument) {
    return (unsigned)(uintptr_t)argument;
}

static void run_threads(void *(*work)(void *)) {
    pthread_t threads[N_THREADS];
    for (uintptr_t i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *overlap_one(void *argument) {
    unsigned i = number_of(argument);
    sleep_until(50 + 60 * i);
    take_range(i * OF_THREAD, (i + 1) * OF_THREAD, 700);
    sleep_until(200 + 60 * i);
    drop_range(i * OF_THREAD, (i + 1) * OF_THREAD);
    return NULL;
}

static void threads_overlap(void) {
    run_threads(overlap_one);
    sleep_until(450);
}

static void *idle_one(void *argument) {
    unsigned i = number_of(argument);
    sleep_until(20 * i);
    take_range(i * OF_THREAD, (i + 1) * OF_THREAD, 500);
    sleep_until(100 + 20 * i);
    drop_range(i * OF_THREAD, (i + 1) * OF_THREAD);
    sleep_until(500);
    return NULL;
}

static void threads_idle(void) {
    run_threads(idle_one);
}

/* What one thread allocates the next one frees. */
static void *pass_one(void *argument) {
    unsigned i = number_of(argument), before = (i + N_THREADS - 1) % N_THREADS;
    for (unsigned step = 0; step < 8; step++) {
        sleep_until(50 + 40 * step + 5 * i);
        take_range(i * OF_THREAD + step * 500, i * OF_THREAD + (step + 1) * 500, 600);
        sleep_until(80 + 40 * step);
        if (step % 2 == 1)
            drop_range(before * OF_THREAD + (step - 1) * 500, before * OF_THREAD + step * 500);
    }
    return NULL;
}

static void threads_pass(void) {
    run_threads(pass_one);
    sleep_until(450);
}

/* ---- the program ---- */

static const struct mode {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"idle-start", idle_start},
    {"idle-end", idle_end},
    {"idle-both", idle_both},
    {"bursts", bursts},
    {"fragments", fragments},
    {"aligned", aligned},
    {"growth", growth},
    {"untouched", untouched},
    {"large", large},
    {"churn", churn},
    {"stack", stack},
    {"queue", queue},
    {"sudden-end", sudden_end},
    {"threads-overlap", threads_overlap},
    {"threads-idle", threads_idle},
    {"threads-pass", threads_pass},
};

int main(int argc, char **argv) {
    clock_gettime(CLOCK_MONOTONIC, &begin);
    is_without = argc == 3 && strcmp(argv[2], "without") == 0;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0] && argc > 1; i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        modes[i].run();
        return 0;
    }
    return 2;
}
