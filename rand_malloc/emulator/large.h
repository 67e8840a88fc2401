/* large.h - memory for the supervisor's arrays of one entry per event. */
#ifndef RAND_MALLOC_LARGE_H
#define RAND_MALLOC_LARGE_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_PAGE_BYTES (UINT64_C(2) << 20)

/* As malloc, to be given to free; NULL if memory is short.  Asks for huge pages: a trace of
 * a million events would cost ten thousand page faults more. */
static inline void *large_alloc(size_t count, size_t bytes) {
    size_t whole = (count * bytes / LARGE_PAGE_BYTES + 1) * LARGE_PAGE_BYTES;
    void *memory = NULL;
    if (whole == LARGE_PAGE_BYTES)
        return malloc(count * bytes + 1);
    if (posix_memalign(&memory, LARGE_PAGE_BYTES, whole) != 0)
        return NULL;
    madvise(memory, whole, MADV_HUGEPAGE);
    return memory;
}

#endif
