/* vmstat.c - preloaded into rand_malloc: a kernel that is short of huge pages.
 *
 * /proc/vmstat is read before and after each run.  The readings after the first VMSTAT_SHORT
 * runs are one fallback higher than those before; every reading is noted in the file VMSTAT_LOG.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int n_readings; /* even: before a run, odd: after it */

static void note(void) {
    int log = open(getenv("VMSTAT_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log >= 0 && write(log, ".", 1) == 1)
        close(log);
}

__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode) {
    FILE *(*real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    if (strcmp(path, "/proc/vmstat") != 0)
        return real(path, mode);
    static char text[64];
    int n_short = atoi(getenv("VMSTAT_SHORT"));
    int n_ended = (n_readings + 1) / 2;
    snprintf(text, sizeof text, "thp_fault_fallback %d\nthp_collapse_alloc 7\n",
             n_ended < n_short ? n_ended : n_short);
    n_readings++;
    note();
    return fmemopen(text, strlen(text), "r");
}
