/* qemu.c - instrument "qemu": user-mode emulation with our counting plugin.
 *
 * The plugin (rand_malloc/plugin) counts between the marks and writes struct
 * plugin_counts to COUNTER_FD.  qemu takes part of its own environment for the guest; only
 * LD_PRELOAD must not reach qemu itself and is set with -E.
 */
#include "../../plugin/counts.h"
#include "../replayer.h"
#include "instrument.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Two builds of one source: qemu up to 8 wants plugin interface <= 1, later ones >= 2. */
static const char *const PLUGINS[] = {"instruction_count_1.so", "instruction_count_2.so"};

static bool wrap(const struct options *options, int variant, struct command *prefix, char *reason,
                 unsigned reason_bytes) {
    char program[PATH_MAX], plugin[PATH_MAX];
    reason[0] = '\0';
    if (variant >= 2)
        return false;
    if (!instrument_find_program("qemu-x86_64", program, sizeof program)) {
        snprintf(reason, reason_bytes, "qemu-x86_64 is not installed (package qemu-user)");
        return false;
    }
    run_beside_self(PLUGINS[variant], plugin, sizeof plugin);
    if (access(plugin, R_OK) != 0 || strchr(plugin, ',') != NULL) {
        snprintf(reason, reason_bytes, "the plugin %.200s cannot be used", plugin);
        return false;
    }
    if (options->preload != NULL && strchr(options->preload, ',') != NULL) {
        snprintf(reason, reason_bytes, "qemu cannot preload a path with a comma");
        return false;
    }
    command_add(prefix, "%s", program);
    command_add(prefix, "-cpu");
    command_add(prefix, "max,-erms,-fsrm"); /* libc must not choose rep strings */
    command_add(prefix, "-seed");
    command_add(prefix, "1"); /* AT_RANDOM */
    command_add(prefix, "-plugin");
    /* Not position independent: the replayer's addresses are ours. */
    command_add(prefix,
                "%s,fd=%x,begin=%x,end=%x,own_begin=%lx,own_end=%lx,wait_begin=%lx,wait_end=%lx,"
                "count_own=%x",
                plugin, COUNTER_FD, MARK_BEGIN, MARK_END, (unsigned long)__executable_start,
                (unsigned long)etext, (unsigned long)__start_rand_malloc_wait,
                (unsigned long)__stop_rand_malloc_wait, (unsigned)options->counts_process);
    if (options->preload != NULL) {
        command_add(prefix, "-E");
        command_add(prefix, "LD_PRELOAD=%s", options->preload);
    }
    prefix->carries_preload = true;
    return true;
}

static bool read_counts(const struct run *run, struct instructions *counted, char *reason,
                        unsigned reason_bytes) {
    struct plugin_counts counts;
    if (pread(run->counter_fd, &counts, sizeof counts, 0) != (ssize_t)sizeof counts ||
        counts.magic != PLUGIN_COUNTS_MAGIC) {
        snprintf(reason, reason_bytes, "the plugin wrote no result");
        return false;
    }
    *counted = (struct instructions){.allocator = counts.outside,
                                     .has_allocator = true,
                                     .process = counts.outside + counts.own,
                                     .has_process = run->options->counts_process};
    return true;
}

const struct instrument QEMU = {.name = "qemu", .wrap = wrap, .read = read_counts};
