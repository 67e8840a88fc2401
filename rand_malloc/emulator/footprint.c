/* footprint.c - classifies the mappings of /proc/self/smaps (proc(5)); see footprint.h.
 *
 * The file is read piecewise and line by line: it may be longer than any buffer worth
 * having.  A line that starts a mapping reads "start-end perms offset device inode path";
 * the lines that follow it are "Key: number kB".
 */
#include "footprint.h"
#include "rawsys.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

enum {
    LINE_BYTES = 4352
}; /* a path of 4096 bytes and what stands before it */

/* Writable data is [__data_start, _end); set by the linker. */
extern char __data_start[], _end[];

static struct {
    char piece[16 * 1024];
    long n_bytes, next; /* of piece */
    char line[LINE_BYTES];
    int descriptor;
} smaps;

static bool next_character(char *character) {
    if (smaps.next == smaps.n_bytes) {
        smaps.n_bytes =
            raw_syscall3(SYS_read, smaps.descriptor, (long)smaps.piece, (long)sizeof smaps.piece);
        smaps.next = 0;
        if (smaps.n_bytes <= 0) {
            smaps.n_bytes = 0;
            return false;
        }
    }
    *character = smaps.piece[smaps.next++];
    return true;
}

/* Reads a line without its end; what does not fit is left out. */
static bool next_line(void) {
    size_t length = 0;
    char character = '\0';
    while (next_character(&character) && character != '\n')
        if (length + 1 < sizeof smaps.line)
            smaps.line[length++] = character;
    smaps.line[length] = '\0';
    return length > 0 || character == '\n';
}

static bool is_file(const char *path, const char *start_of_name) {
    const char *slash = strrchr(path, '/');
    return slash != NULL && strncmp(slash + 1, start_of_name, strlen(start_of_name)) == 0;
}

/* Is the mapping whose first line this is part of a process without any allocator? */
static bool is_baseline(const char *line) {
    char *end;
    uint64_t from = strtoull(line, &end, 16);
    uint64_t to = strtoull(end + 1, &end, 16);
    if (from < (uint64_t)(uintptr_t)_end && to > (uint64_t)(uintptr_t)__data_start)
        return true; /* our own .data and .bss */
    if (strstr(end, "[stack]") != NULL)
        return true;
    return is_file(end, "ld-linux") || is_file(end, "libc.so") || is_file(end, "rand_malloc");
}

uint64_t footprint_of_allocator(uint64_t harness_bytes) {
    static const char key[] = "Anonymous:";
    uint64_t bytes = 0;
    bool counts = false;
    smaps.next = smaps.n_bytes = 0;
    smaps.descriptor = (int)raw_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/smaps",
                                        O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (smaps.descriptor < 0)
        return 0;
    while (next_line()) {
        if (smaps.line[0] < 'A' || smaps.line[0] > 'Z') /* addresses are in lower case */
            counts = !is_baseline(smaps.line);
        else if (counts && strncmp(smaps.line, key, sizeof key - 1) == 0)
            bytes += strtoull(smaps.line + sizeof key - 1, NULL, 10) * 1024;
    }
    raw_syscall3(SYS_close, smaps.descriptor, 0, 0);
    return bytes > harness_bytes ? bytes - harness_bytes : 0;
}
