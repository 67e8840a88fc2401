/* shared.c - what the shared libraries need of the compiler's start files, without those.
 *
 * They are linked with -nostartfiles: the start files register transactions and finalizers that
 * exgen does not have, and run doing so in every program, which makes pages of code and
 * data resident even where nothing is ever allocated.  What is left is the name by which the C
 * library notices fork handlers of libraries that are unloaded, as exgen's never are (nodelete);
 * and what only a program with a loader can ask for.
 */
#include <dlfcn.h>

#include "base/platform.h"

extern HIDDEN void *__dso_handle;
HIDDEN void *__dso_handle = NULL;

HIDDEN void *loaded_symbol(const char *name);

/* The address of `name` in a C++ library that the process has loaded, also with RTLD_LOCAL; else
 * NULL. */
HIDDEN COLD void *loaded_symbol(const char *name) {
    static const char libraries[][20] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
    void *symbol = NULL;
    for (size_t i = 0; symbol == NULL && i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            symbol = dlsym(library, name);
            dlclose(library); /* which only takes back what dlopen counted */
        }
    }
    return symbol;
}
