/* room.c - see room.h.
 *
 * The limit of the control group is read where version 2 mounts it for the process (cgroups(7)); a
 * container sees its own at the root.
 */
#include "room.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHARE 4 /* of the free memory, the part that may be taken for a moment */

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

uint64_t room_for(uint64_t bytes) {
    if (bytes == 0)
        return 0;
    uint64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    uint64_t machine = kib == UINT64_MAX ? 0 : kib * 1024, group = free_in_group();
    uint64_t most = (group < machine ? group : machine) / SHARE;
    return bytes < most ? bytes : most;
}
