/* probe.c - print what the allocator of this process made of its environment.
 *
 * Run it under LD_PRELOAD and with an allocator's settings in the environment;
 * it prints one JSON object: the library that malloc is bound to, its version,
 * and the effective value of every setting that can be read or observed.
 * Allocators ignore, clip and refuse settings in silence; a setting counts only
 * if it shows up here.  mimalloc prints its options itself on standard error
 * when MIMALLOC_VERBOSE=1; here only its version is reported.
 *
 * Format: docs/allocators.md, "The probe's report".  Exit codes: 0 ok, 1 no report, 2 usage.
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

#include "report.h"

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
        report_null("mimalloc");
        return;
    }
    report_open("mimalloc");
    report_integer("version_number", version());
    report_close();
}

static void report_process(const char *malloc_from) {
    report_text("schema", "malloc_tuner.probe");
    report_integer("version", 1);
    report_text("malloc_from", malloc_from);
    report_text("loader", loader_path());
    report_text("glibc_version", gnu_get_libc_version());
    report_integer("page_size_bytes", sysconf(_SC_PAGESIZE));
    void *block = malloc(1000);
    report_unsigned("usable_size_of_1000_bytes", block ? malloc_usable_size(block) : 0);
    free(block);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        fprintf(stderr, "probe: %s: takes no arguments; settings come from the environment\n",
                argv[1]);
        return 2;
    }
    const char *malloc_from = object_of(dlsym(RTLD_DEFAULT, "malloc"));
    report_open(NULL);
    if (is_libc(malloc_from)) {
        probe_glibc();
    } else {
        report_null("glibc");
    }
    report_process(malloc_from);
    probe_tcmalloc();
    probe_jemalloc();
    report_mimalloc();
    probe_exgen();
    report_close();
    if (report_write()) {
        fprintf(stderr, "probe: standard output: cannot write the report\n");
        return 1;
    }
    return 0;
}
