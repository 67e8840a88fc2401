/* fuzz_exgen_heap.c - operations on the heap agree with a shadow heap, also across threads.
 *
 * Each operation is four bytes: what, which slot, size (two bytes).  The shadow is a
 * table of blocks with size and pattern; contents, alignment and usable size are
 * checked.  Some operations run in a second thread, which takes turns with
 * the first, so a run depends on nothing but its input.  After each input
 * the heap is valid and nothing is in use.  Settings: EXGEN_CONF, as ever.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exgen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    N_SLOTS = 256,
    N_OPERATION_BYTES = 4,
    IN_OTHER_THREAD = 0x80
};

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

struct block {
    unsigned char *start; /* NULL: free slot */
    size_t size;          /* bytes asked for */
    unsigned char pattern;
};

static struct block slots[N_SLOTS];

/* Sizes of all magnitudes from two bytes: 11 bits, shifted by up to 9. */
static size_t size_of(const uint8_t *operation) {
    size_t low = operation[2] | (size_t)(operation[3] & 7) << 8;
    return low << (operation[3] >> 3) % 10;
}

static void check(const struct block *b, size_t size) {
    for (size_t i = 0; i < size; i += i < 64 ? 1 : 64)
        EXPECT(b->start[i] == b->pattern);
}

static void fill(struct block *b, size_t alignment, unsigned char pattern) {
    EXPECT(b->start != NULL && (uintptr_t)b->start % alignment == 0);
    EXPECT(exgen_malloc_usable_size(b->start) >= b->size);
    b->pattern = pattern;
    for (size_t i = 0; i < b->size; i += i < 64 ? 1 : 64)
        b->start[i] = pattern;
}

static void allocate(struct block *b, const uint8_t *operation) {
    size_t alignment = 16;
    b->size = size_of(operation);
    switch (operation[0] % 3) {
    case 0:
        b->start = exgen_malloc(b->size);
        break;
    case 1:
        b->start = exgen_calloc(1, b->size);
        b->pattern = 0;
        check(b, b->start != NULL ? b->size : 0);
        break;
    default:
        alignment = (size_t)1 << operation[1] % 17;
        b->start = exgen_memalign(alignment, b->size);
    }
    fill(b, alignment, (unsigned char)(operation[1] + operation[2]));
}

static void release(struct block *b, int with_size) {
    check(b, b->size);
    if (with_size)
        exgen_free_sized(b->start, b->size);
    else
        exgen_free(b->start);
    b->start = NULL;
}

static void resize(struct block *b, size_t size) {
    size = size == 0 ? 1 : size;
    b->start = exgen_realloc(b->start, size);
    EXPECT(b->start != NULL);
    check(b, size < b->size ? size : b->size);
    b->size = size;
    fill(b, 16, b->pattern);
}

static void operate(const uint8_t *operation) {
    struct block *b = &slots[operation[1] % N_SLOTS];
    if (operation[0] % 64 == 63)
        exgen_purge();
    else if (b->start == NULL)
        allocate(b, operation);
    else if (operation[0] % 4 == 3)
        resize(b, size_of(operation));
    else
        release(b, operation[0] % 2);
}

/* A stretch of operations that one thread runs. */
struct stretch {
    const uint8_t *first;
    size_t n;
};

static void *run(void *argument) {
    const struct stretch *s = argument;
    for (size_t i = 0; i < s->n; i++)
        operate(s->first + i * N_OPERATION_BYTES);
    return NULL;
}

static void run_in_thread(struct stretch *s, int other) {
    pthread_t thread;
    if (!other) {
        run(s);
        return;
    }
    EXPECT(pthread_create(&thread, NULL, run, s) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t n = size / N_OPERATION_BYTES;
    for (size_t i = 0; i < n;) {
        int other = data[i * N_OPERATION_BYTES] & IN_OTHER_THREAD;
        struct stretch s = {data + i * N_OPERATION_BYTES, 0};
        while (i < n && (data[i * N_OPERATION_BYTES] & IN_OTHER_THREAD) == other) {
            s.n++;
            i++;
        }
        run_in_thread(&s, other);
    }
    for (size_t i = 0; i < N_SLOTS; i++)
        if (slots[i].start != NULL)
            release(&slots[i], 0);
    exgen_purge();
    EXPECT(exgen_validate_heap());
    EXPECT(exgen_check_leaks(1) == 0);
    return 0;
}
