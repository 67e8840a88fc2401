/* hooks_c.c - the allocation functions of C, POSIX and glibc.
 *
 * Each calls the real function and records what it did.  Failed calls leave no
 * record.  A stamp is taken after an allocation and before a release (spool.h).
 */
#include "entry/give.h"

#include <errno.h>
#include <malloc.h> /* memalign, pvalloc */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void record_new_block(enum record_short code, void *block, size_t size) {
    if (real_is_foreign(block))
        return;
    if (__builtin_expect(size >= TRACE_TOUCH_LEAST_BYTES, 0))
        lanes_record_large(record_codes[code], 0, block, size);
    else
        record(code, block, size, clock_stamp());
}

static void record_aligned(enum trace_api api, void *block, size_t alignment, size_t size) {
    if (real_is_foreign(block) || alignment == 0)
        return;
    unsigned align_log2 = (unsigned)__builtin_ctzl(alignment);
    lanes_record_large(RECORD_CODE(TRACE_ALIGNED, api), align_log2, block, size);
}

RECORDER_EXPORT void *malloc(size_t size) {
    void *block = real.malloc(size);
    record_new_block(SHORT_MALLOC, block, size);
    return block;
}

RECORDER_EXPORT void free(void *block) {
    give(SHORT_FREE, block);
}

RECORDER_EXPORT void *calloc(size_t n, size_t size) {
    void *block = real.calloc(n, size);
    record_new_block(SHORT_CALLOC, block, n * size);
    return block;
}

/* Blocks of the arena cannot grow in place: they move to the real heap. */
static RECORDER_COLD void *leave_arena(void *block, size_t size) {
    size_t limit = (size_t)(real_arena + ARENA_BYTES - (char *)block);
    void *moved = malloc(size);
    if (moved != NULL)
        memcpy(moved, block, size < limit ? size : limit);
    return moved;
}

static RECORDER_COLD void *change_large(enum record_short of_block, void *block, size_t size) {
    struct touch_move move;
    touch_before_realloc(&move, block, size);
    record(SHORT_REALLOC_BEGIN, block, 0, clock_stamp());
    void *moved = real.realloc(block, size);
    uint64_t stamp = clock_stamp();
    uint32_t number = touch_after_realloc(&move, moved, size);
    enum record_short code = moved == NULL && size == 0 ? SHORT_REALLOC_TO_ZERO : of_block;
    lanes_record_slowly(record_codes[code], 0, (uintptr_t)moved, size, stamp, number);
    return moved;
}

static inline void *change_block(enum record_short of_null, enum record_short of_block, void *block,
                                 size_t size) {
    if (block == NULL) {
        void *new_block = real.realloc(NULL, size);
        record_new_block(of_null, new_block, size);
        return new_block;
    }
    if (real_is_arena(block))
        return leave_arena(block, size);
    if (size >= TRACE_TOUCH_LEAST_BYTES || touch_may_know(block))
        return change_large(of_block, block, size);
    record(SHORT_REALLOC_BEGIN, block, 0, clock_stamp());
    void *moved = real.realloc(block, size);
    /* NULL for size 0 is a free (glibc); else a failure, which the builder undoes. */
    record(moved == NULL && size == 0 ? SHORT_REALLOC_TO_ZERO : of_block, moved, size,
           clock_stamp());
    return moved;
}

RECORDER_EXPORT void *realloc(void *block, size_t size) {
    return change_block(SHORT_REALLOC_OF_NULL, SHORT_REALLOC, block, size);
}

RECORDER_EXPORT void *reallocarray(void *block, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return change_block(SHORT_REALLOCARRAY_OF_NULL, SHORT_REALLOCARRAY, block, bytes);
}

/* The allocator may round an alignment up to a power of two; so does the record. */
static size_t round_alignment(size_t alignment) {
    size_t rounded = 1;
    while (rounded < alignment && rounded << 1 != 0)
        rounded <<= 1;
    return rounded;
}

RECORDER_EXPORT void *memalign(size_t alignment, size_t size) {
    void *block = real.memalign(alignment, size);
    record_aligned(TRACE_API_MEMALIGN, block, round_alignment(alignment), size);
    return block;
}

RECORDER_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    void *block = real.aligned_alloc(alignment, size);
    record_aligned(TRACE_API_ALIGNED_ALLOC, block, round_alignment(alignment), size);
    return block;
}

RECORDER_EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
    int error = real.posix_memalign(block, alignment, size);
    if (error == 0)
        record_aligned(TRACE_API_POSIX_MEMALIGN, *block, alignment, size);
    return error;
}

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

RECORDER_EXPORT void *valloc(size_t size) {
    void *block = real.memalign(page_size(), size);
    record_aligned(TRACE_API_VALLOC, block, page_size(), size);
    return block;
}

RECORDER_EXPORT void *pvalloc(size_t size) {
    size_t page = page_size();
    if (size > SIZE_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    size_t rounded = size == 0 ? page : (size + page - 1) / page * page;
    void *block = real.memalign(page, rounded);
    record_aligned(TRACE_API_PVALLOC, block, page, rounded);
    return block;
}

/* C23; the real allocator may not have them, and free() does the same. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

RECORDER_EXPORT void free_sized(void *block, size_t size) {
    (void)size;
    give(SHORT_FREE_SIZED, block);
}

RECORDER_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment;
    free_sized(block, size);
}
