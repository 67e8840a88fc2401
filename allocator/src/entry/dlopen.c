/* dlopen.c - dlopen without RTLD_DEEPBIND, in the shared libraries.
 *
 * A library that is loaded with the flag finds malloc and free in the C library before it finds
 * those of a preloaded library, but the C library itself calls the preloaded ones: what strdup
 * returns there would be freed into the other heap.  So the flag is taken out, unless `deepbind` is
 * set; it is also lost for other names, for which a library then finds those of the program first.
 * glibc knows the caller, whose RUNPATH and namespace count, by the return address: the next dlopen
 * is reached by a jump, which test_deepbind.c would miss.
 * Limit: dlmopen is left alone, since other namespaces have a C library of their own.
 */
#include <dlfcn.h>

#include "base/options.h"
#include "thread/thread.h"

/* musl has no such flag. */
#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0
#endif

/* Other compilers make a jump of it with -O2 and -Os. */
#if __has_attribute(musttail)
#define MUST_TAIL __attribute__((musttail))
#else
#define MUST_TAIL
#endif

typedef void *opener(const char *file, int mode);

__attribute__((visibility("default"))) void *dlopen(const char *file, int mode) {
    opener *next = (opener *)dlsym(RTLD_NEXT, "dlopen");
    if ((mode & RTLD_DEEPBIND) != 0) {
        allocator_start(); /* which reads the settings */
        if (!options.deepbind)
            mode &= ~RTLD_DEEPBIND;
    }
    MUST_TAIL return next(file, mode);
}
