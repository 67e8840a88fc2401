/* meter.c - reads /proc/self and the resource usage; see meter.h. */
#include "meter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    ROOM = 4096
};

uint64_t meter_clock_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t ns_of(struct timeval time) {
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_usec * 1000u;
}

uint64_t meter_cpu_ns(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
}

uint64_t meter_faults(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}

static void read_text(const char *path, char text[ROOM]) {
    text[0] = '\0';
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t got = read(file, text, ROOM - 1);
    text[got > 0 ? got : 0] = '\0';
    (void)close(file);
}

/* The field "name: number kB" of /proc/self/status, in bytes; 0 if there is none. */
static uint64_t status_bytes(const char *name) {
    char text[ROOM];
    read_text("/proc/self/status", text);
    const char *line = strstr(text, name);
    return line != NULL ? strtoull(line + strlen(name), NULL, 10) * 1024u : 0;
}

uint64_t meter_rss_bytes(void) {
    return status_bytes("VmRSS:");
}

uint64_t meter_peak_rss_bytes(void) {
    return status_bytes("VmHWM:");
}
