/* memory.c - see memory.h. */
#include "memory.h"

#include <sys/mman.h>

void *memory_map(size_t bytes) {
    void *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return buffer == MAP_FAILED ? NULL : buffer;
}

void *memory_grow(void *buffer, size_t old_bytes, size_t new_bytes) {
    if (buffer == NULL)
        return memory_map(new_bytes);
    void *moved = mremap(buffer, old_bytes, new_bytes, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
}

void memory_prefer_huge(void *buffer, size_t bytes) {
    madvise(buffer, bytes, MADV_HUGEPAGE); /* no matter if there are none */
}

void memory_unmap(void *buffer, size_t bytes) {
    if (buffer != NULL)
        munmap(buffer, bytes);
}
