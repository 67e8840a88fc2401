/* jemalloc_names.c - what jemalloc has besides the standard, for programs that are linked with it.
 *
 * Redis and BIND take blocks by mallocx, and some go to free or malloc_usable_size: what is
 * preloaded in place of malloc, exgen or the recorder, must have these names too.  They come down
 * to the standard ones.  Arenas and caches that flags name are hints, which change nothing; mallctl
 * stays jemalloc's. Source: jemalloc(3), non-standard API.
 */
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((cold, visibility("default")))

enum {
    LEAST_ALIGNMENT = _Alignof(max_align_t),
    LOG2_ALIGNMENT = 63, /* MALLOCX_LG_ALIGN */
    ZERO = 64            /* MALLOCX_ZERO */
};

void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
size_t xallocx(void *block, size_t size, size_t extra, int flags);
size_t sallocx(const void *block, int flags);
void dallocx(void *block, int flags);
void sdallocx(void *block, size_t size, int flags);
size_t nallocx(size_t size, int flags);

static size_t alignment_of(int flags) {
    size_t alignment = (size_t)1 << (flags & LOG2_ALIGNMENT);
    return alignment > LEAST_ALIGNMENT ? alignment : LEAST_ALIGNMENT;
}

/* Clear a new block behind `used` bytes, if that was asked for; NULL stays NULL. */
static void *cleared(void *block, size_t used, int flags) {
    size_t size = (flags & ZERO) != 0 ? malloc_usable_size(block) : 0;
    if (size > used)
        memset((char *)block + used, 0, size - used);
    return block;
}

EXPORT void *mallocx(size_t size, int flags) {
    if (alignment_of(flags) > LEAST_ALIGNMENT)
        return cleared(memalign(alignment_of(flags), size), 0, flags);
    return (flags & ZERO) != 0 ? cleared(calloc(1, size), size, flags) : malloc(size);
}

/* A block that is aligned moves. */
static void *resize_aligned(void *block, size_t used, size_t size, int flags) {
    void *new_block = memalign(alignment_of(flags), size);
    if (new_block != NULL) {
        memcpy(new_block, block, used < size ? used : size);
        free(block);
    }
    return new_block;
}

EXPORT void *rallocx(void *block, size_t size, int flags) {
    size_t used = malloc_usable_size(block);
    bool is_aligned = alignment_of(flags) > LEAST_ALIGNMENT;
    void *resized =
        is_aligned ? resize_aligned(block, used, size, flags) : realloc(block, size > 0 ? size : 1);
    return cleared(resized, used < size ? used : size, flags);
}

/* What may not move stays as it is. */
EXPORT size_t xallocx(void *block, size_t size, size_t extra, int flags) {
    (void)size;
    (void)extra;
    (void)flags;
    return malloc_usable_size(block);
}

EXPORT size_t sallocx(const void *block, int flags) {
    (void)flags;
    return malloc_usable_size((void *)block);
}

EXPORT void dallocx(void *block, int flags) {
    (void)flags;
    free(block);
}

EXPORT void sdallocx(void *block, size_t size, int flags) {
    (void)size;
    (void)flags;
    free(block);
}

/* No allocator gives a block fewer bytes. */
EXPORT size_t nallocx(size_t size, int flags) {
    return size <= PTRDIFF_MAX && alignment_of(flags) <= PTRDIFF_MAX - size ? size : 0;
}
