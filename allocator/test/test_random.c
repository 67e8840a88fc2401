/* test_random.c - random operations agree with a shadow heap.
 *
 * Every thread keeps a table of blocks it believes to own: address, size,
 * pattern.  Each operation is checked: alignment, usable size, contents kept
 * (by realloc, too), calloc all zero.  Blocks do not overlap, or a pattern
 * would be damaged.  With several threads, blocks are handed round through a
 * shared table, so that many are freed by others than their owners; and all
 * threads but the first end several times, and new ones go on with their blocks,
 * so that heaps are orphaned and adopted.  At the end everything is freed, the
 * heap is valid and nothing is in use.
 *
 * test_random <operations> <threads> <seed> [above]
 * With `above` most blocks are above the size classes, and alignments reach 4 MiB.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "exgen.h"
#include "test.h"

enum {
    N_SLOTS = 2000,
    N_SLOTS_ABOVE = 200,
    N_SHARED = 64,
    N_THREADS_MAX = 16,
    N_GENERATIONS = 5
};

struct block {
    unsigned char *start;
    size_t size;
    unsigned char pattern;
};

struct worker {
    struct block slots[N_SLOTS];
    uint64_t random;
    size_t n_operations; /* of each generation */
};

static bool is_above;
static struct worker workers[N_THREADS_MAX];
static struct block shared[N_SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t random_size(uint64_t *random) {
    static const size_t RANGES[] = {32768, 32768, 32768, 262144, 262144, 1048576, 3000000, 9000};
    uint64_t r = test_random(random);
    if (is_above)
        return (r >> 8) % RANGES[r % 8];
    switch (r % 64) {
    case 0:
        return (r >> 8) % 3000000;
    case 1:
    case 2:
        return (r >> 8) % 200000;
    case 3:
        return 0;
    default:
        return (r >> 8) % (r % 4 == 0 ? 9000 : 300);
    }
}

/* Only the ends and one byte for each page: enough to see an overlap. */
static void fill(const struct block *b) {
    size_t edge = b->size < 64 ? b->size : 64;
    memset(b->start, b->pattern, edge);
    memset(b->start + b->size - edge, b->pattern, edge);
    for (size_t i = 0; i < b->size; i += 4096)
        b->start[i] = b->pattern;
}

static void check(const struct block *b, size_t size) {
    size_t edge = size < 64 ? size : 64;
    for (size_t i = 0; i < edge; i++)
        EXPECT(b->start[i] == b->pattern);
    for (size_t i = 0; i < size; i += 4096)
        EXPECT(b->start[i] == b->pattern);
    if (size == b->size)
        for (size_t i = size - edge; i < size; i++)
            EXPECT(b->start[i] == b->pattern);
}

static void check_new(const struct block *b, size_t alignment) {
    EXPECT(b->start != NULL);
    EXPECT((uintptr_t)b->start % alignment == 0);
    EXPECT(exgen_malloc_usable_size(b->start) >= b->size);
}

static void allocate(struct worker *w, struct block *b) {
    uint64_t r = test_random(&w->random);
    size_t alignment = 16;
    b->size = random_size(&w->random);
    b->pattern = (unsigned char)(r >> 32);
    if (r % 8 == 0) {
        alignment = (size_t)1 << (r >> 8) % (is_above ? 23 : 17);
        b->start = exgen_memalign(alignment, b->size);
    } else if (r % 8 == 1) {
        b->start = exgen_calloc(1, b->size);
        for (size_t i = 0; i < b->size; i += i < 4096 ? 1 : 61)
            EXPECT(b->start[i] == 0);
    } else {
        b->start = exgen_malloc(b->size);
    }
    check_new(b, alignment);
    fill(b);
}

static void release(struct block *b) {
    check(b, b->size);
    if (b->size % 3 == 0)
        exgen_free_sized(b->start, b->size);
    else
        exgen_free(b->start);
    b->start = NULL;
}

static void reallocate(struct worker *w, struct block *b) {
    size_t size = random_size(&w->random);
    if (size == 0)
        size = 1;
    unsigned char *start = exgen_realloc(b->start, size);
    EXPECT(start != NULL);
    b->start = start;
    if (size < b->size) {
        check(b, size);
    } else {
        check(b, b->size);
    }
    b->size = size;
    check_new(b, 16);
    fill(b);
}

static void trade(struct worker *w, struct block *mine) {
    size_t i = test_random(&w->random) % N_SHARED;
    pthread_mutex_lock(&shared_lock);
    struct block theirs = shared[i];
    shared[i] = *mine;
    pthread_mutex_unlock(&shared_lock);
    *mine = theirs;
}

static void *work(void *argument) {
    struct worker *w = argument;
    for (size_t n = 0; n < w->n_operations; n++) {
        struct block *b = &w->slots[test_random(&w->random) % (is_above ? N_SLOTS_ABOVE : N_SLOTS)];
        uint64_t r = test_random(&w->random);
        if (r % 8 == 0)
            trade(w, b);
        else if (b->start == NULL)
            allocate(w, b);
        else if (r % 8 == 1)
            reallocate(w, b);
        else
            release(b);
        if (r % 4096 == 0)
            EXPECT(exgen_validate_heap());
        if (r % 65536 == 1)
            exgen_purge();
    }
    EXPECT(exgen_validate_heap());
    return NULL;
}

static void *release_all(void *argument) {
    struct worker *w = argument;
    for (size_t i = 0; i < N_SLOTS; i++)
        if (w->slots[i].start != NULL)
            release(&w->slots[i]);
    EXPECT(exgen_validate_heap());
    return NULL;
}

/* Run `function` for every worker, each in a thread of its own but the first. */
static void run_generation(void *(*function)(void *), size_t n_threads) {
    pthread_t threads[N_THREADS_MAX];
    for (size_t i = 1; i < n_threads; i++)
        EXPECT(pthread_create(&threads[i], NULL, function, &workers[i]) == 0);
    function(&workers[0]);
    for (size_t i = 1; i < n_threads; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
    EXPECT(argc == 4 || argc == 5);
    is_above = argc == 5;
    size_t n_threads = strtoull(argv[2], NULL, 10);
    EXPECT(n_threads >= 1 && n_threads <= N_THREADS_MAX);
    test_seed = strtoull(argv[3], NULL, 10);
    for (size_t i = 0; i < n_threads; i++) {
        workers[i].random = test_seed * 1000 + i;
        workers[i].n_operations = strtoull(argv[1], NULL, 10) / N_GENERATIONS;
    }
    for (size_t i = 0; i < N_GENERATIONS; i++)
        run_generation(work, n_threads);
    run_generation(release_all, n_threads);
    for (size_t i = 0; i < N_SHARED; i++)
        if (shared[i].start != NULL)
            release(&shared[i]);
    exgen_purge();
    EXPECT(exgen_validate_heap());
    EXPECT(exgen_check_leaks(1) == 0);
    return test_passed();
}
