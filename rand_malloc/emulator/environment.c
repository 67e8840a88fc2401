/* environment.c - builds the replayer's environment; see environment.h. */
#include "environment.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_BYTES 16384u /* all strings together, or a multiple where that is too small */

/* glibc's string functions use `rep movsb/stosb` above these thresholds, which
 * simulators count once per byte; both kinds of run get the same setting. */
#define REP_TUNABLES                                                                               \
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"

__attribute__((format(printf, 2, 3))) static void add(struct environment *environment,
                                                      const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (environment->n_strings == ENVIRONMENT_STRINGS ||
        vasprintf(&environment->strings[environment->n_strings++], format, list) < 0)
        abort();
    va_end(list);
}

static size_t total_bytes(const struct environment *environment) {
    size_t bytes = 0;
    for (int i = 0; i < environment->n_strings; i++)
        bytes += strlen(environment->strings[i]) + 1;
    return bytes;
}

/* Fillers up to the fixed number of strings; the last one also fills the bytes. */
static void pad(struct environment *environment, size_t bytes_left_out, int n_left_out) {
    while (environment->n_strings + n_left_out < ENVIRONMENT_STRINGS - 1)
        add(environment, "RAND_MALLOC_PAD_%02d=", environment->n_strings + n_left_out);
    size_t used = total_bytes(environment) + bytes_left_out + strlen("RAND_MALLOC_PAD=") + 1;
    size_t room = (used / ROOM_BYTES + 1) * ROOM_BYTES;
    add(environment, "RAND_MALLOC_PAD=%0*d", (int)(room - used), 0);
}

void environment_build(const struct options *options, bool leaves_out_preload,
                       struct environment *environment) {
    const char *tunables = NULL;
    size_t bytes_left_out = 0;
    int n_left_out = 0;
    *environment = (struct environment){.n_strings = 0};
    for (int i = 0; i < options->n_variables; i++) {
        if (strncmp(options->variables[i], "GLIBC_TUNABLES=", 15) == 0)
            tunables = options->variables[i] + 15;
        else
            add(environment, "%s", options->variables[i]);
    }
    if (tunables != NULL && tunables[0] != '\0')
        add(environment, "GLIBC_TUNABLES=%s:" REP_TUNABLES, tunables);
    else
        add(environment, "GLIBC_TUNABLES=" REP_TUNABLES);
    add(environment, "LD_BIND_NOW=1");
    add(environment, "PATH=/usr/local/bin:/usr/bin:/bin"); /* valgrind is a script */
    if (options->preload != NULL && leaves_out_preload) {
        bytes_left_out = strlen("LD_PRELOAD=") + strlen(options->preload) + 1;
        n_left_out = 1;
    } else if (options->preload != NULL) {
        add(environment, "LD_PRELOAD=%s", options->preload);
    }
    pad(environment, bytes_left_out, n_left_out);
}

void environment_release(struct environment *environment) {
    for (int i = 0; i < environment->n_strings; i++)
        free(environment->strings[i]);
    *environment = (struct environment){.n_strings = 0};
}
