/* cachegrind.c - instrument "cachegrind": valgrind's instruction counter.
 *
 * Its tool callgrind counts what cachegrind counts, as fast without a simulated cache, and
 * writes one line per instruction with its address: so the allocator's share is known, by
 * the same rule as under qemu.  Counted is the whole life of the process; the same run
 * without operations is subtracted.
 * Format of the out file: https://valgrind.org/docs/manual/cl-format.html
 */
#include "../replayer.h"
#include "instrument.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool wrap(const struct options *options, int variant, struct command *prefix, char *reason,
                 unsigned reason_bytes) {
    char program[PATH_MAX];
    (void)options;
    reason[0] = '\0';
    if (variant > 0)
        return false;
    if (!instrument_find_program("valgrind", program, sizeof program)) {
        snprintf(reason, reason_bytes, "valgrind is not installed (package valgrind)");
        return false;
    }
    command_add(prefix, "%s", program);
    command_add(prefix, "--tool=callgrind");
    command_add(prefix, "-q");
    command_add(prefix, "--dump-instr=yes");
    command_add(prefix, "--dump-line=no");
    command_add(prefix, "--compress-strings=no");
    command_add(prefix, "--compress-pos=no");
    command_add(prefix, "--callgrind-out-file=/proc/self/fd/%d", COUNTER_FD);
    return true;
}

static bool is_between(uint64_t address, const char *begin, const char *end) {
    return address >= (uintptr_t)begin && address < (uintptr_t)end;
}

/* Adds up one line "0xADDRESS COUNT".  Addresses count from where their object was loaded.
 * This executable is loaded at 0, and what valgrind knows no object for (sections other than
 * .text, of any object) has true addresses: elsewhere they say nothing. */
static void add_line(const char *line, bool has_true_addresses, struct instructions *counted) {
    uint64_t address, count;
    if (sscanf(line, "%" SCNx64 " %" SCNu64, &address, &count) != 2)
        return;
    if (has_true_addresses &&
        is_between(address, __start_rand_malloc_wait, __stop_rand_malloc_wait))
        return;
    counted->process += count;
    if (!has_true_addresses || !is_between(address, __executable_start, etext))
        counted->allocator += count;
}

/* Adds up a file; false if it has no lines of this executable or breaks off. */
static bool add_file(FILE *file, struct instructions *counted) {
    bool has_true_addresses = false, is_whole = false, saw_self = false;
    char *line = NULL;
    size_t line_bytes = 0;
    while (getline(&line, &line_bytes, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "ob=", 3) == 0) {
            bool is_self = strcmp(line + 3, run_self_path()) == 0;
            saw_self = saw_self || is_self;
            has_true_addresses = is_self || strcmp(line + 3, "???") == 0;
        } else if (strncmp(line, "calls=", 6) == 0) {
            /* The next line is what the callee spent: it stands there too. */
            if (getline(&line, &line_bytes, file) <= 0)
                break;
        } else if (strncmp(line, "0x", 2) == 0) {
            add_line(line, has_true_addresses, counted);
        } else if (strncmp(line, "totals:", 7) == 0) {
            is_whole = true;
        }
    }
    free(line);
    return is_whole && saw_self;
}

static bool read_counts(const struct run *run, struct instructions *counted, char *reason,
                        unsigned reason_bytes) {
    *counted = (struct instructions){.has_allocator = true, .has_process = true};
    bool is_good = false;
    int descriptor = dup(run->counter_fd);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "r") : NULL;
    if (file != NULL) {
        rewind(file);
        is_good = add_file(file, counted);
        fclose(file);
    } else if (descriptor >= 0) {
        close(descriptor);
    }
    if (!is_good)
        snprintf(reason, reason_bytes, "callgrind wrote no counts of the replay");
    return is_good;
}

const struct instrument CACHEGRIND = {
    .name = "cachegrind", .needs_empty_run = true, .wrap = wrap, .read = read_counts};
