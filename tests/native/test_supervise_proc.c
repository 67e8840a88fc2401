/* A mapped file is known by its numbers, and by its path where a file system shows others. */
#include <stdio.h>
#include <unistd.h>

#include "proc.h"

static bool is_found(const struct proc_file *file) {
    bool is_mapped = false;
    return proc_maps_file(getpid(), file, &is_mapped) && is_mapped;
}

int main(void) {
    struct proc_file self;
    if (!proc_find_file("/proc/self/exe", &self))
        return 1;
    struct proc_file by_path = self;
    struct proc_file by_numbers = self;
    by_path.device++;
    by_numbers.path[1] = '\0';
    struct proc_file neither = by_path;
    neither.path[1] = '\0';
    bool is_good = is_found(&by_path) && is_found(&by_numbers) && !is_found(&neither);
    return is_good ? 0 : 1;
}
