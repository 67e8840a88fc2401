/* bench.h - what all parts of malloc_bench share: the run, its workers, one malloc and one free.
 *
 * A workload runs in threads that are called workers.  All of them start together and
 * then follow one phase after the other: warm up, count, time, stop.  In the counting phase
 * nothing but the workload runs; in the timing phase every malloc and free is timed as well.
 * The bench's own memory comes from mmap, so that the heap under study holds nothing but the
 * workload's blocks (and what libc allocates to start a thread).
 */
#ifndef RAND_MALLOC_BENCH_H
#define RAND_MALLOC_BENCH_H

#include "latency.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    CACHE_LINE = 128, /* two lines: processors fetch them in pairs */
    PAGE = 4096,
    MAX_THREADS = 1024
};

enum exit_code {
    EXIT_OK = 0,
    EXIT_RUN = 1,
    EXIT_USAGE = 2
};

enum phase {
    PHASE_WARM,
    PHASE_COUNT,
    PHASE_TIME,
    PHASE_STOP
};

struct bench;
struct worker;

/* How long each call took, in ticks, that of reading the clock included. */
struct timing {
    struct histogram malloc;
    struct histogram free;
    struct histogram empty; /* nothing: a section behind each call, see note() */
};

/* Sizes of blocks that are replaced at random, and how many a worker holds. */
struct range {
    size_t least; /* bytes */
    size_t most;
    size_t n_slots;
};

struct workload {
    const char *name;
    const char *what;
    struct range range;                   /* of those that replace blocks of a range of sizes */
    bool needs_others;                    /* two threads at least */
    bool wants_size;                      /* --size has a meaning */
    void (*prepare)(struct bench *bench); /* before the threads start; NULL: nothing to do */
    void (*fill)(struct worker *worker); /* in each thread before the clock starts; NULL: nothing */
    void (*run)(struct worker *worker);  /* in each thread; frees all it has before it returns */
    void (*whole)(struct bench *bench);  /* instead of threads: in the main thread, alone */
};

struct settings {
    const struct workload *workload;
    uint32_t threads;    /* 1 .. MAX_THREADS */
    double seconds;      /* length of the counting phase, > 0 */
    uint64_t operations; /* each worker ends after so many; UINT64_MAX: after the time */
    size_t size;         /* bytes */
    uint64_t seed;
    uint32_t samples; /* of the curve, 0: no curve */
    bool keeps_aslr;
};

/* Sums over the counting phase. */
struct counted {
    uint64_t operations;
    uint64_t wall_ns;
    uint64_t cpu_ns;
};

/* Resident and live memory over time; arrays of n. */
struct curve {
    uint32_t n;
    uint32_t room;
    uint64_t *time_ns;
    uint64_t *live_bytes;
    uint64_t *rss_bytes;
};

struct bench {
    const struct settings *settings;
    struct worker *workers; /* settings->threads of them */
    _Atomic int phase;      /* enum phase */
    void *shared;           /* of the workload, all workers see it */
    struct counted counted;
    struct timing timing; /* of all workers, filled at the end */
    double ticks_per_ns;
    struct curve curve;
    uint64_t usable_bytes;   /* of one block of settings->size; overhead only */
    uint64_t resident_bytes; /* per such block; overhead only */
};

struct worker {
    struct bench *bench;
    struct timing *timing;
    uint64_t random; /* state of the generator, never 0 */
    uint32_t index;  /* 0 .. threads - 1 */
    bool times;      /* the phase is PHASE_TIME, as last seen */
    void **slots;    /* of the workload */
    _Atomic uint64_t operations;
    _Atomic uint64_t timed;     /* operations of the timing phase */
    _Atomic int64_t live_bytes; /* allocated less freed by this worker; may be negative */
} __attribute__((aligned(CACHE_LINE)));

_Noreturn void fail(const char *what, const char *why);

/* Zeroed memory of the bench's own, never freed. */
void *own_memory(size_t bytes);

/* Marsaglia's xorshift64* (Vigna, "An experimental exploration", 2016). */
static inline uint64_t draw(struct worker *worker) {
    uint64_t x = worker->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    worker->random = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

/* A number in [low, high]; the bias is below (high - low) / 2^32. */
static inline size_t draw_between(struct worker *worker, size_t low, size_t high) {
    return low + (size_t)(((draw(worker) >> 32) * (high - low + 1)) >> 32);
}

/* False when it is time to end. */
static inline bool goes_on(struct worker *worker) {
    int phase = atomic_load_explicit(&worker->bench->phase, memory_order_relaxed);
    worker->times = phase == PHASE_TIME;
    return phase != PHASE_STOP && atomic_load_explicit(&worker->operations, memory_order_relaxed) <
                                      worker->bench->settings->operations;
}

static inline void did(struct worker *worker, uint64_t n_operations) {
    uint64_t before = atomic_load_explicit(&worker->operations, memory_order_relaxed);
    atomic_store_explicit(&worker->operations, before + n_operations, memory_order_relaxed);
    if (__builtin_expect(worker->times, 0))
        (void)atomic_fetch_add_explicit(&worker->timed, n_operations, memory_order_relaxed);
}

void *take_timed(struct worker *worker, size_t size);
void give_timed(struct worker *worker, void *block);

/* One malloc. */
static inline void *take(struct worker *worker, size_t size) {
    if (__builtin_expect(worker->times, 0))
        return take_timed(worker, size);
    void *block = malloc(size);
    if (__builtin_expect(block == NULL, 0))
        fail("malloc", "out of memory");
    return block;
}

/* One realloc, one posix_memalign, one calloc; timed as malloc. */
void *retake(struct worker *worker, void *block, size_t size);
void *take_aligned(struct worker *worker, size_t alignment, size_t size);
void *take_zeroed(struct worker *worker, size_t size);

/* One free. */
static inline void give(struct worker *worker, void *block) {
    if (__builtin_expect(worker->times, 0))
        give_timed(worker, block);
    else
        free(block);
}

/* Write to every page, first and last byte included. */
static inline void touch(void *block, size_t size) {
    volatile unsigned char *bytes = block;
    for (size_t at = 0; at < size; at += PAGE)
        bytes[at] = 1;
    bytes[size - 1] = 1;
}

/* The head of a block that wanders between threads; such blocks have at least its size. */
struct head {
    uintptr_t mark; /* shows that a block was damaged */
    size_t size;
};

static const uintptr_t HEAD_KEY = (uintptr_t)0x9e3779b97f4a7c15;

/* Allocate a block with a head, and touch it. */
static inline void *take_marked(struct worker *worker, size_t size) {
    struct head *head = take(worker, size);
    touch(head, size);
    head->mark = (uintptr_t)head ^ HEAD_KEY;
    head->size = size;
    return head;
}

/* Free a block of take_marked; NULL is none. Returns its size. */
static inline size_t give_marked(struct worker *worker, void *block) {
    struct head *head = block;
    if (head == NULL)
        return 0;
    if (__builtin_expect(head->mark != ((uintptr_t)head ^ HEAD_KEY), 0))
        fail("heap", "a block was damaged while it was allocated");
    size_t size = head->size;
    head->mark = 0;
    give(worker, block);
    return size;
}

#endif
