/* See touch.h.  One touch clears all of a huge page; where there are none, it costs a small one. */
#include "touch.h"
#include "room.h"

#include <stddef.h>
#include <sys/mman.h>

#define HUGE ((uint64_t)2 << 20)

void touch_huge_pages(uint64_t bytes) {
    uint64_t length = (room_for(bytes) + HUGE - 1) / HUGE * HUGE;
    if (length == 0)
        return;
    char *pages = mmap(NULL, length + HUGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return;
    char *first = pages + (HUGE - (uintptr_t)pages % HUGE) % HUGE;
    if (madvise(first, length, MADV_HUGEPAGE) == 0)
        for (uint64_t at = 0; at < length; at += HUGE)
            ((volatile char *)first)[at] = 1;
    munmap(pages, length + HUGE);
}
