/* probe.c - print what the allocator of this process made of its environment.
 *
 * Run it under LD_PRELOAD and with an allocator's settings in the environment;
 * it prints one JSON object: the library that malloc is bound to, its version,
 * and the effective value of every setting that can be read or observed.
 * Allocators ignore, clip and refuse settings in silence; a setting counts only
 * if it shows up here.  mimalloc prints its options itself on standard error
 * when MIMALLOC_VERBOSE=1; here only its version is reported.
 *
 * Format: docs/allocators.md, "How a setting is proved".  Exit codes: 0 ok, 1 no report, 2 usage.
 */
#include "probe.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

struct json report;

/* Path of the object that contains an address, or NULL. */
static const char *object_of(const void *address) {
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fname : NULL;
}

/* The dynamic loader is mapped where the kernel says it put the interpreter. */
static const char *loader_path(void) {
    return object_of((const void *)getauxval(AT_BASE)); // NOLINT(performance-no-int-to-ptr)
}

static bool is_libc(const char *path) {
    const char *name = path ? strrchr(path, '/') : NULL;
    return name && strncmp(name, "/libc.so", 8) == 0;
}

static void report_mimalloc(void) {
    int (*version)(void);
    *(void **)&version = dlsym(RTLD_DEFAULT, "mi_version");
    if (!version) {
        json_null(&report, "mimalloc");
        return;
    }
    json_open(&report, "mimalloc");
    json_signed(&report, "version_number", version());
    json_close(&report);
}

static void report_process(const char *malloc_from) {
    json_text(&report, "schema", "malloc_tuner.probe");
    json_signed(&report, "version", 1);
    json_text(&report, "malloc_from", malloc_from);
    json_text(&report, "loader", loader_path());
    json_text(&report, "glibc_version", gnu_get_libc_version());
    json_signed(&report, "page_size_bytes", sysconf(_SC_PAGESIZE));
    void *block = malloc(1000);
    json_integer(&report, "usable_size_of_1000_bytes", block ? malloc_usable_size(block) : 0);
    free(block);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        fprintf(stderr, "probe: %s: takes no arguments; settings come from the environment\n",
                argv[1]);
        return 2;
    }
    report = json_to(STDOUT_FILENO);
    const char *malloc_from = object_of(dlsym(RTLD_DEFAULT, "malloc"));
    json_open(&report, NULL);
    if (is_libc(malloc_from)) {
        probe_glibc();
    } else {
        json_null(&report, "glibc");
    }
    report_process(malloc_from);
    probe_tcmalloc();
    probe_jemalloc();
    report_mimalloc();
    probe_exgen();
    json_close(&report);
    if (!json_finish(&report)) {
        fprintf(stderr, "probe: standard output: cannot write the report\n");
        return 1;
    }
    return 0;
}
