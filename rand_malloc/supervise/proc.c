/* Reading what the kernel knows about a process from /proc: see proc.h.
 *
 * Source: proc(5), and fs/proc/task_mmu.c of the kernel for which number is
 * summed exactly and which one walks the page tables.
 */
#include "proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_ROOM = 64,
    TEXT_ROOM = 8192
};

/* Read a small file whole; the text is cut at TEXT_ROOM - 1 bytes. */
static bool read_text(const char *path, char text[TEXT_ROOM]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t length = 0;
    ssize_t got = 0;
    while (length < TEXT_ROOM - 1 && (got = read(fd, text + length, TEXT_ROOM - 1 - length)) > 0)
        length += (size_t)got;
    close(fd);
    text[length] = '\0';
    return got >= 0 && length > 0;
}

/* Find "\nKEY: N"; the key is given with its line feed and colon. */
static bool find_number(const char *text, const char *key, uint64_t *number) {
    const char *line = strstr(text, key);
    if (line == NULL)
        return false;
    *number = strtoull(line + strlen(key), NULL, 10);
    return true;
}

/* Find "\nKEY: N kB". */
static bool find_kb(const char *text, const char *key, uint64_t *bytes) {
    uint64_t kb = 0;
    if (!find_number(text, key, &kb))
        return false;
    *bytes = kb * 1024;
    return true;
}

static bool memory_of_task(const char *path, struct proc_memory *memory) {
    char text[TEXT_ROOM];
    struct proc_memory found;
    uint64_t shared = 0;
    if (!read_text(path, text) || !find_kb(text, "\nVmHWM:", &found.high_water) ||
        !find_kb(text, "\nRssAnon:", &found.anon) || !find_kb(text, "\nRssFile:", &found.file) ||
        !find_number(text, "\nThreads:", &found.n_threads))
        return false;
    if (find_kb(text, "\nRssShmem:", &shared))
        found.file += shared;
    *memory = found;
    return true;
}

/* When the first thread has ended, only the others still show the memory. */
static bool memory_of_other_threads(pid_t pid, struct proc_memory *memory) {
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return false;
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = readdir(tasks)) != NULL) {
        int tid = atoi(entry->d_name);
        if (tid > 0) {
            (void)snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, tid);
            found = memory_of_task(path, memory);
        }
    }
    closedir(tasks);
    return found;
}

bool proc_memory(pid_t pid, struct proc_memory *memory) {
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return memory_of_task(path, memory) || memory_of_other_threads(pid, memory);
}

bool proc_counts(pid_t pid, struct proc_counts *counts) {
    char path[PATH_ROOM];
    char text[TEXT_ROOM];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!read_text(path, text))
        return false;
    /* The second field is the name in brackets and may hold anything. */
    const char *rest = strrchr(text, ')');
    int parent = 0;
    unsigned long minor = 0;
    unsigned long major = 0;
    unsigned long own[2] = {0};
    long children[2] = {0};
    unsigned long long started = 0;
    if (rest == NULL ||
        sscanf(rest + 1,
               " %*c %d %*d %*d %*d %*d %*u %lu %*u %lu %*u %lu %lu %ld %ld %*d %*d %*d %*d %llu",
               &parent, &minor, &major, &own[0], &own[1], &children[0], &children[1],
               &started) != 8)
        return false;
    uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    *counts = (struct proc_counts){.parent = parent,
                                   .started = started,
                                   .minor_faults = minor,
                                   .major_faults = major,
                                   .user_ns = own[0] * tick_ns,
                                   .system_ns = own[1] * tick_ns,
                                   .children_user_ns = (uint64_t)children[0] * tick_ns,
                                   .children_system_ns = (uint64_t)children[1] * tick_ns};
    return true;
}

uint64_t proc_cpu_ns(pid_t pid) {
    clockid_t clock = 0;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * UINT64_C(1000000000) + (uint64_t)used.tv_nsec;
}

bool proc_lazy_free(pid_t pid, uint64_t *bytes) {
    char path[PATH_ROOM];
    char text[TEXT_ROOM];
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    return read_text(path, text) && find_kb(text, "\nLazyFree:", bytes);
}

/* A mapping in smaps, in bytes. */
struct mapping {
    uint64_t pss;
    uint64_t shared_clean, shared_dirty; /* of pages that others map too */
    uint64_t own_clean, own_dirty;       /* of the others */
    uint64_t lazy;                       /* of both */
};

/* Take the value of a line "KEY: N kB"; false if it is another. */
static bool take_kb(const char *line, const char *key, uint64_t *bytes) {
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0)
        return false;
    *bytes = strtoull(line + length, NULL, 10) * 1024;
    return true;
}

/* Of anonymous memory hardly anything is clean but what was lazily freed: so one knows which pages
 * these are.  Those that others map too count as the shared pages of the mapping do on average. */
static uint64_t share_of_lazy(const struct mapping *mapping) {
    uint64_t own = mapping->lazy < mapping->own_clean ? mapping->lazy : mapping->own_clean;
    uint64_t n_private = mapping->own_clean + mapping->own_dirty;
    uint64_t n_shared = mapping->shared_clean + mapping->shared_dirty;
    if (n_shared == 0 || mapping->pss < n_private)
        return own;
    double share = (double)(mapping->pss - n_private) / (double)n_shared;
    return own + (uint64_t)((double)(mapping->lazy - own) * share);
}

/* The share of all pages that were lazily freed; untouched if it cannot be read. */
static void read_lazy_share(pid_t pid, uint64_t *bytes) {
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        return;
    struct mapping mapping = {0};
    uint64_t share = 0;
    bool any = false;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, maps) > 0) {
        if (take_kb(line, "LazyFree:", &mapping.lazy)) { /* behind all others of its mapping */
            share += share_of_lazy(&mapping);
            any = true;
        } else if (!take_kb(line, "Pss:", &mapping.pss) &&
                   !take_kb(line, "Shared_Clean:", &mapping.shared_clean) &&
                   !take_kb(line, "Shared_Dirty:", &mapping.shared_dirty) &&
                   !take_kb(line, "Private_Clean:", &mapping.own_clean)) {
            (void)take_kb(line, "Private_Dirty:", &mapping.own_dirty);
        }
    }
    free(line);
    fclose(maps);
    if (any)
        *bytes = share;
}

bool proc_shares(pid_t pid, struct proc_shares *shares) {
    char path[PATH_ROOM];
    char text[TEXT_ROOM];
    struct proc_shares found;
    uint64_t whole_anon = 0; /* pages that others map too count in full */
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    if (!read_text(path, text) || !find_kb(text, "\nPss_Anon:", &found.anon) ||
        !find_kb(text, "\nPss_Shmem:", &found.shared) ||
        !find_kb(text, "\nPss_File:", &found.file) || !find_kb(text, "\nAnonymous:", &whole_anon) ||
        !find_kb(text, "\nLazyFree:", &found.lazy))
        return false;
    if (found.lazy > 0 && whole_anon > found.anon)
        read_lazy_share(pid, &found.lazy);
    *shares = found;
    return true;
}

bool proc_find_file(const char *name, struct proc_file *file) {
    struct stat status;
    if (stat(name, &status) != 0 || realpath(name, file->path) == NULL)
        return false;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    return true;
}

/* Is the file the one of this line of maps? */
static bool is_line_of(const struct proc_file *file, char *line) {
    unsigned int high = 0;
    unsigned int low = 0;
    unsigned long inode = 0;
    int at = 0; /* of the path */
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%*s %*s %*s %x:%x %lu %n", &high, &low, &inode, &at) != 3)
        return false;
    bool has_numbers = inode == file->inode && makedev(high, low) == file->device;
    return has_numbers || (at > 0 && strcmp(line + at, file->path) == 0);
}

bool proc_maps_file(pid_t pid, const struct proc_file *file, bool *is_mapped) {
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        return false;
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    bool any = false;
    while (!found && getline(&line, &room, maps) > 0) {
        any = true;
        found = is_line_of(file, line);
    }
    free(line);
    fclose(maps);
    if (any)
        *is_mapped = found;
    return any;
}

bool proc_environment(pid_t pid, struct proc_environment *environment) {
    enum {
        STEP = 1 << 16
    };
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct proc_environment found = {NULL, 0};
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0) {
        char *more = realloc(found.text, found.n_bytes + STEP + 1);
        if (more == NULL) {
            got = -1;
            break;
        }
        found.text = more;
        got = read(fd, found.text + found.n_bytes, STEP);
        found.n_bytes += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    if (got < 0) {
        free(found.text);
        return false;
    }
    found.text[found.n_bytes] = '\0';
    *environment = found;
    return true;
}

bool proc_program(pid_t pid, char program[PATH_MAX]) {
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, program, PATH_MAX - 1);
    if (n < 0)
        return false;
    program[n] = '\0';
    return true;
}

static void add_library(struct proc_libraries *libraries, const char *path) {
    for (size_t i = 0; i < libraries->n; i++) {
        if (strcmp(libraries->paths[i], path) == 0)
            return;
    }
    if (libraries->n < N_LIBRARIES && strlen(path) < LIBRARY_ROOM)
        memcpy(libraries->paths[libraries->n++], path, strlen(path) + 1);
}

/* Whether a path from its first slash on is that of an allocator. */
static bool is_allocator(const char *path) {
    const char *name = strrchr(path, '/');
    return strstr(name, "malloc") != NULL || strstr(name, "libexgen") != NULL;
}

bool proc_malloc_libraries(pid_t pid, struct proc_libraries *libraries) {
    char name[PATH_ROOM];
    (void)snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    if (maps == NULL)
        return false;
    char *line = NULL;
    size_t room = 0;
    bool any = false;
    *libraries = (struct proc_libraries){0};
    while (getline(&line, &room, maps) > 0) {
        any = true;
        line[strcspn(line, "\n")] = '\0';
        const char *path = strchr(line, '/');
        if (path != NULL && is_allocator(path))
            add_library(libraries, path);
    }
    free(line);
    fclose(maps);
    return any;
}
