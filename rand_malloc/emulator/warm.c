/* warm.c - see warm.h.
 *
 * Small pages: they use up the scattered free ones first, and come back merged.  The limit of
 * the control group is read where version 2 mounts it for the process (cgroups(7)); a container
 * sees its own at the root.
 */
#include "warm.h"
#include "clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SHARE 4 /* of the free memory, the part that may be taken for a moment */
#define PAGE  UINT64_C(4096)

/* The number behind a key, or alone in the file for key ""; UINT64_MAX if there is none. */
static uint64_t read_number(const char *path, const char *key) {
    char line[256];
    uint64_t value = UINT64_MAX;
    FILE *file = fopen(path, "re");
    while (file != NULL && value == UINT64_MAX && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) != 0 ||
            sscanf(line + strlen(key), " %" SCNu64, &value) != 1)
            value = UINT64_MAX;
    if (file != NULL)
        fclose(file);
    return value;
}

/* Path of a file of the control group this process is in; "" if that is not known. */
static void group_file(const char *name, char *path, size_t path_bytes) {
    char line[2048];
    path[0] = '\0';
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0)
            snprintf(path, path_bytes, "/sys/fs/cgroup%s/%s", line + 3, name);
    }
    if (file != NULL)
        fclose(file);
}

static uint64_t free_in_group(void) {
    char most[2304], now[2304];
    group_file("memory.max", most, sizeof most);
    group_file("memory.current", now, sizeof now);
    uint64_t limit = read_number(most, ""), used = read_number(now, "");
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

static uint64_t free_bytes(void) {
    uint64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    uint64_t machine = kib == UINT64_MAX ? 0 : kib * 1024, group = free_in_group();
    return group < machine ? group : machine;
}

struct warmed memory_warm(uint64_t bytes) {
    struct warmed warmed = {0, 0};
    uint64_t most = free_bytes() / SHARE;
    if (bytes > most)
        bytes = most;
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
