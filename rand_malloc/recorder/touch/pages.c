/* pages.c - see pages.h.
 *
 * By PAGEMAP_SCAN (Linux 6.7), which shows pages of zeros that were only read and huge pages from
 * others, else by the entries of pagemap (Documentation/admin-guide/mm/pagemap.rst).
 */
#include "touch/pages.h"

#include "spool/file.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    MOST_REGIONS = 64,
    MOST_ENTRIES = 256
};

/* Of linux/fs.h since 6.7; older headers lack it (Documentation/admin-guide/mm/pagemap.rst). */
struct scan_region {
    uint64_t begin;
    uint64_t end;
    uint64_t categories;
};

struct scan {
    uint64_t bytes; /* sizeof(struct scan) */
    uint64_t flags;
    uint64_t begin;
    uint64_t end;
    uint64_t walk_end; /* where the kernel stopped */
    uint64_t regions;  /* struct scan_region[n_regions] */
    uint64_t n_regions;
    uint64_t most_pages; /* 0: any number */
    uint64_t inverted;
    uint64_t all_of;
    uint64_t any_of;
    uint64_t returned; /* categories that come back */
};

enum {
    PAGE_PRESENT = 1 << 3,
    PAGE_SWAPPED = 1 << 4,
    PAGE_OF_ZEROS = 1 << 5,
    PAGE_HUGE = 1 << 6,
};

static const unsigned long scan_request = _IOWR('f', 16, struct scan);

static struct {
    size_t bytes; /* of one */
    int pagemap;
    dev_t device; /* of pagemap */
    ino_t inode;
    bool can_scan;
} pages = {.pagemap = -1};

size_t pages_bytes(void) {
    return pages.bytes;
}

struct range pages_whole(uintptr_t address, size_t from, size_t to) {
    uintptr_t mask = pages.bytes - 1;
    struct range range = {(address + from + mask) & ~mask, (address + to) & ~mask};
    if (range.end < range.begin)
        range.end = range.begin;
    return range;
}

uint64_t pages_in(struct range range) {
    return (range.end - range.begin) / pages.bytes;
}

static bool remember_pagemap(int fd) {
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0)
        return false;
    pages.pagemap = fd;
    pages.device = status.st_dev;
    pages.inode = status.st_ino;
    return true;
}

static bool is_our_pagemap(void) {
    struct stat status;
    return fstat(pages.pagemap, &status) == 0 && status.st_dev == pages.device &&
           status.st_ino == pages.inode;
}

/* Opened again if the program took it away. */
static bool has_pagemap(void) {
    if (is_our_pagemap())
        return true;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    return remember_pagemap(fd < 0 ? fd : file_move_high(fd));
}

/* Adds the pages that were written; false where that cannot be known. */
static bool scan_pages(struct range range, uint64_t *n_pages) {
    struct scan_region regions[MOST_REGIONS];
    struct scan scan = {.bytes = sizeof scan,
                        .begin = range.begin,
                        .end = range.end,
                        .regions = (uintptr_t)regions,
                        .n_regions = MOST_REGIONS,
                        .inverted = PAGE_OF_ZEROS,
                        .all_of = PAGE_OF_ZEROS,
                        .any_of = PAGE_PRESENT | PAGE_SWAPPED,
                        .returned = PAGE_HUGE};
    while (scan.begin < scan.end) {
        long n = syscall(SYS_ioctl, pages.pagemap, scan_request, &scan);
        if (n < 0)
            return false;
        for (long i = 0; i < n; i++) {
            if (regions[i].categories != 0)
                return false;
            *n_pages += (regions[i].end - regions[i].begin) / pages.bytes;
        }
        scan.begin = scan.walk_end;
    }
    return true;
}

static bool read_pages(struct range range, uint64_t *n_pages) {
    uint64_t entries[MOST_ENTRIES]; /* bit 63: present, 62: swapped */
    uint64_t at = range.begin / pages.bytes;
    uint64_t end = range.end / pages.bytes;
    while (at < end) {
        size_t n = end - at < MOST_ENTRIES ? end - at : MOST_ENTRIES;
        long got =
            syscall(SYS_pread64, pages.pagemap, entries, n * sizeof *entries, at * sizeof *entries);
        if (got < (long)sizeof *entries)
            return false;
        n = (size_t)got / sizeof *entries;
        for (size_t i = 0; i < n; i++)
            *n_pages += entries[i] >> 62 != 0;
        at += n;
    }
    return true;
}

bool pages_count(struct range range, uint64_t *n_pages) {
    return has_pagemap() &&
           (pages.can_scan ? scan_pages(range, n_pages) : read_pages(range, n_pages));
}

bool pages_start(const void *written) {
    uint64_t n_pages = 0;
    if (is_our_pagemap()) /* in a child it is that of the parent's memory */
        syscall(SYS_close, pages.pagemap);
    pages.pagemap = -1;
    pages.bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct range own = pages_whole((uintptr_t)written, 0, pages.bytes);
    pages.can_scan = true;
    pages.can_scan = pages_count(own, &n_pages) && n_pages == 1;
    return pages.pagemap >= 0;
}
