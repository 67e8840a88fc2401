/* bench.c - the parts of bench.h that are not in the way of the workload. */
#include "bench.h"

#include <stdio.h>
#include <sys/mman.h>

void fail(const char *what, const char *why) {
    (void)fprintf(stderr, "malloc_bench: %s: %s\n", what, why);
    _Exit(EXIT_RUN);
}

void *own_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap", "out of memory");
    return memory;
}

/* The clock between two fences, so that a section holds its own instructions and no others.  The
 * processor reorders a plain rdtsc like any instruction: a call then seems to take as long as what
 * the program did before it, or no time at all.
 * Source: Intel SDM volume 2, "RDTSC": lfence before it and after it. */
static inline uint64_t fenced_ticks(void) {
    __asm__ volatile("lfence" ::: "memory");
    uint64_t ticks = latency_ticks();
    __asm__ volatile("lfence" ::: "memory");
    return ticks;
}

/* A call's ticks, and those of an empty section behind it: what the clock itself takes. */
static void note(struct worker *worker, struct histogram *histogram, uint64_t ticks) {
    histogram_add(histogram, ticks);
    uint64_t start = fenced_ticks();
    histogram_add(&worker->timing->empty, fenced_ticks() - start);
}

/* The block of a call that began at `start`, if the worker times calls. */
static void *taken(struct worker *worker, uint64_t start, void *block, const char *call) {
    if (worker->times)
        note(worker, &worker->timing->malloc, fenced_ticks() - start);
    if (block == NULL)
        fail(call, "out of memory");
    return block;
}

static uint64_t start_of(const struct worker *worker) {
    return worker->times ? fenced_ticks() : 0;
}

void *retake(struct worker *worker, void *block, size_t size) {
    uint64_t start = start_of(worker);
    return taken(worker, start, realloc(block, size), "realloc");
}

void *take_aligned(struct worker *worker, size_t alignment, size_t size) {
    uint64_t start = start_of(worker);
    void *block = NULL;
    if (posix_memalign(&block, alignment, size) != 0)
        block = NULL;
    return taken(worker, start, block, "posix_memalign");
}

void *take_zeroed(struct worker *worker, size_t size) {
    uint64_t start = start_of(worker);
    return taken(worker, start, calloc(1, size), "calloc");
}

__attribute__((noinline)) void *take_timed(struct worker *worker, size_t size) {
    uint64_t start = fenced_ticks();
    void *block = malloc(size);
    uint64_t end = fenced_ticks();
    if (block == NULL)
        fail("malloc", "out of memory");
    note(worker, &worker->timing->malloc, end - start);
    return block;
}

__attribute__((noinline)) void give_timed(struct worker *worker, void *block) {
    uint64_t start = fenced_ticks();
    free(block);
    uint64_t end = fenced_ticks();
    note(worker, &worker->timing->free, end - start);
}
