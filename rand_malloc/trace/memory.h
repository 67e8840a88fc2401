/* memory.h - buffers straight from the kernel.
 *
 * The trace library lives inside processes whose C heap is under study, so it
 * takes its memory by mmap only.  Buffers start zeroed and are touched lazily.
 */
#ifndef MALLOC_TUNER_TRACE_MEMORY_H
#define MALLOC_TUNER_TRACE_MEMORY_H

#include <stddef.h>

/* A zeroed buffer of at least `bytes` (> 0), or NULL. */
void *memory_map(size_t bytes);

/* The same contents in new_bytes >= old_bytes, the rest zeroed; NULL leaves the
 * old buffer as it was. */
void *memory_grow(void *buffer, size_t old_bytes, size_t new_bytes);

/* Asks for huge pages: filling a large buffer costs a fault for each page. */
void memory_prefer_huge(void *buffer, size_t bytes);

/* Gives the buffer back; NULL is allowed. */
void memory_unmap(void *buffer, size_t bytes);

#endif
