/* The limits of all control groups that hold a process count, of made-up ones here. */
#include "check.h"
#include "room.h"

#include <sys/stat.h>
#include <unistd.h>

static char mount[] = "/tmp/test_room_XXXXXX";

static void write_file(const char *group, const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s%s/%s", mount, group, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void make_group(const char *group, const char *limit, const char *used) {
    char path[200];
    snprintf(path, sizeof path, "%s%s", mount, group);
    CHECK(mkdir(path, 0700) == 0 || group[0] == '\0');
    write_file(group, "memory.max", limit);
    write_file(group, "memory.current", used);
}

static void remove_group(const char *group) {
    char path[200];
    snprintf(path, sizeof path, "%s%s/memory.max", mount, group);
    unlink(path);
    snprintf(path, sizeof path, "%s%s/memory.current", mount, group);
    unlink(path);
    snprintf(path, sizeof path, "%s%s", mount, group);
    CHECK(rmdir(path) == 0);
}

int main(void) {
    CHECK(mkdtemp(mount) != NULL);
    require(room_in_group(mount, "/none") == UINT64_MAX, "no group is no limit");
    make_group("/slice", "1000\n", "400\n");
    make_group("/slice/service", "max\n", "300\n");
    require(room_in_group(mount, "/slice/service") == 600, "the limit of the group above counts");
    make_group("/slice/service/leaf", "500\n", "200\n");
    require(room_in_group(mount, "/slice/service/leaf") == 300, "the least of what is left");
    write_file("/slice/service/leaf", "memory.current", "501\n");
    require(room_in_group(mount, "/slice/service/leaf") == 0, "beyond the limit nothing is");
    make_group("", "50\n", "10\n");
    require(room_in_group(mount, "/slice") == 40, "the mount itself is a container's group");
    require(room_in_group(mount, "/") == 40, "also where it is the process's");
    remove_group("/slice/service/leaf");
    remove_group("/slice/service");
    remove_group("/slice");
    remove_group("");
    return verdict();
}
