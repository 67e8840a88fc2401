/* real.h - the allocator behind the recorder.
 *
 * The pointers start at functions that look the real ones up, so a call through
 * them is right from the first instruction of the process on and the hot path
 * needs no check.  dlsym may allocate: while it runs the calls are served from a
 * small static arena whose blocks are never recorded and never freed.
 */
#ifndef MALLOC_TUNER_RECORDER_REAL_H
#define MALLOC_TUNER_RECORDER_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct real_functions {
    void *(*malloc)(size_t size);
    void (*free)(void *block);
    void *(*calloc)(size_t n, size_t size);
    void *(*realloc)(void *block, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    void *(*aligned_alloc)(size_t alignment, size_t size);
    int (*posix_memalign)(void **block, size_t alignment, size_t size);
    size_t (*usable_size)(void *block); /* NULL until looked up, or if the allocator lacks it */

    /* What new and delete call where the program has a malloc of its own, as they do without us.
     * It may lead to ours, which records then.  NULL once looked up, if it has none. */
    void *(*program_malloc)(size_t size);
    void (*program_free)(void *block);
    void *(*program_aligned_alloc)(size_t alignment, size_t size);
};

extern struct real_functions real;

/* Looks the functions up now, if no call has done so. */
void real_prepare(void);

enum {
    ARENA_BYTES = 65536
};
extern char real_arena[ARENA_BYTES];

/* True for blocks of the static arena: not to be recorded, not to be freed. */
static inline bool real_is_arena(const void *block) {
    return (uintptr_t)block - (uintptr_t)real_arena < ARENA_BYTES;
}

/* True when `block` must not be recorded: it is NULL or of the arena. */
static inline bool real_is_foreign(const void *block) {
    return block == NULL || real_is_arena(block);
}

#endif
