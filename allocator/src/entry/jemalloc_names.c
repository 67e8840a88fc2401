/* jemalloc_names.c - what jemalloc has besides the standard, for programs that are linked with it.
 *
 * Redis and BIND take blocks by mallocx, and some go to free or malloc_usable_size: where exgen is
 * preloaded, all of these must be of one heap.  Arenas and caches that flags name are hints, which
 * change nothing here; mallctl stays jemalloc's.  Source: jemalloc(3), non-standard API.
 */
#include "base/platform.h"

#if EXGEN_LIBC_NAMES

#include <string.h>

#include "exgen.h"

#define EXPORT COLD __attribute__((visibility("default")))

enum {
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
    return alignment > BLOCK_ALIGNMENT ? alignment : BLOCK_ALIGNMENT;
}

/* Clear a new block behind `used` bytes, if that was asked for; NULL stays NULL. */
static void *cleared(void *block, size_t used, int flags) {
    size_t size = (flags & ZERO) != 0 ? exgen_malloc_usable_size(block) : 0;
    if (size > used)
        memset((char *)block + used, 0, size - used);
    return block;
}

EXPORT void *mallocx(size_t size, int flags) {
    bool is_calloc = (flags & ZERO) != 0 && alignment_of(flags) == BLOCK_ALIGNMENT;
    return is_calloc ? cleared(exgen_calloc(1, size), size, flags)
                     : cleared(exgen_memalign(alignment_of(flags), size), 0, flags);
}

/* A block that is aligned moves. */
static void *resize_aligned(void *block, size_t used, size_t size, int flags) {
    void *new_block = exgen_memalign(alignment_of(flags), size);
    if (new_block != NULL) {
        memcpy(new_block, block, used < size ? used : size);
        exgen_free(block);
    }
    return new_block;
}

EXPORT void *rallocx(void *block, size_t size, int flags) {
    size_t used = exgen_malloc_usable_size(block);
    void *resized = alignment_of(flags) > BLOCK_ALIGNMENT
                        ? resize_aligned(block, used, size, flags)
                        : exgen_realloc(block, size > 0 ? size : 1);
    return cleared(resized, used < size ? used : size, flags);
}

/* What may not move stays as it is. */
EXPORT size_t xallocx(void *block, size_t size, size_t extra, int flags) {
    (void)size;
    (void)extra;
    (void)flags;
    return exgen_malloc_usable_size(block);
}

EXPORT size_t sallocx(const void *block, int flags) {
    (void)flags;
    return exgen_malloc_usable_size((void *)block);
}

EXPORT void dallocx(void *block, int flags) {
    (void)flags;
    exgen_free(block);
}

EXPORT void sdallocx(void *block, size_t size, int flags) {
    (void)flags;
    exgen_free_sized(block, size);
}

/* At least so many bytes a block of `size` has. */
EXPORT size_t nallocx(size_t size, int flags) {
    return size > PTRDIFF_MAX - alignment_of(flags) ? 0 : round_up(size, alignment_of(flags));
}

#endif
