/* footprint.h - how much of the replayer's memory is its own, and how much the allocator's.
 *
 * An allocator takes memory before the first operation of the trace: its data segments,
 * arenas and caches made at start.  That footprint is part of what a program pays for it,
 * decisive for small programs, so it counts as heap.  The baseline is the rest: what the
 * process would hold with no allocator at all, nearly the same number for every allocator.
 */
#ifndef RAND_MALLOC_FOOTPRINT_H
#define RAND_MALLOC_FOOTPRINT_H

#include <stdint.h>

/* Sums resident anonymous memory over all mappings that belong neither to the executable,
 * the loader and libc nor to the stack, from /proc/self/smaps.  The harness's own mappings
 * are among what is summed, because the kernel may merge them with their neighbours: their
 * size, which is resident as a whole, is subtracted.
 *
 * harness_bytes: resident bytes of the harness's own anonymous mappings.
 * Returns bytes; 0 if smaps cannot be read. */
uint64_t footprint_of_allocator(uint64_t harness_bytes);

#endif
