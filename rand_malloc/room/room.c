/* room.c - see room.h.
 *
 * The limits of the control groups are read where version 2 mounts them for the process
 * (cgroups(7)); a container sees its own at the root.
 */
#include "room.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MOUNT "/sys/fs/cgroup"
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

/* The control group of this process, below the mount; false if it is not known. */
static bool find_group(char *group, size_t group_bytes) {
    char line[2048];
    bool is_known = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0) {
            snprintf(group, group_bytes, "%s", line + 3);
            is_known = true;
        }
    }
    if (file != NULL)
        fclose(file);
    return is_known;
}

/* Of one group; UINT64_MAX if it has no limit. */
static uint64_t free_in_folder(const char *folder) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/memory.max", folder);
    uint64_t limit = read_number(path, "");
    snprintf(path, sizeof path, "%s/memory.current", folder);
    uint64_t used = read_number(path, "");
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

uint64_t room_in_group(const char *mount, const char *group) {
    char folder[2304];
    uint64_t least = UINT64_MAX;
    snprintf(folder, sizeof folder, "%s%s", mount, group);
    for (char *end = folder; end != NULL;) {
        uint64_t left = free_in_folder(folder);
        if (left < least)
            least = left;
        end = strrchr(folder + strlen(mount), '/');
        if (end != NULL)
            *end = '\0';
    }
    return least;
}

uint64_t room_for(uint64_t bytes) {
    if (bytes == 0)
        return 0;
    uint64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    uint64_t machine = kib == UINT64_MAX ? 0 : kib * 1024;
    char group[2048];
    uint64_t in_group = find_group(group, sizeof group) ? room_in_group(MOUNT, group) : UINT64_MAX;
    uint64_t most = (in_group < machine ? in_group : machine) / SHARE;
    return bytes < most ? bytes : most;
}
