/* warm.c - see warm.h.
 *
 * Small pages: they use up the scattered free ones first, and come back merged.
 */
#include "warm.h"
#include "clock.h"
#include "room.h"

#include <sys/mman.h>
#include <time.h>

#define PAGE UINT64_C(4096)

struct warmed memory_warm(uint64_t bytes) {
    struct warmed warmed = {0, 0};
    bytes = room_for(bytes);
    bytes -= bytes % PAGE;
    if (bytes == 0)
        return warmed;
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return warmed;
    madvise(pages, bytes, MADV_NOHUGEPAGE);
    uint64_t begin_ns = real_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t at = 0; at < bytes; at += PAGE)
        ((volatile char *)pages)[at] = 1;
    warmed.bytes = bytes;
    uint64_t n_pages = bytes / PAGE;
    warmed.ns_per_page =
        (double)(real_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / (double)n_pages;
    munmap(pages, bytes);
    return warmed;
}
