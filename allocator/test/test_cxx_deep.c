/* test_cxx_deep.c - a library that replaces new and delete and is loaded with a scope of its own.
 */
#include <dlfcn.h>

#include "test.h"

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    EXPECT(library != NULL);
    void (*use_arrays)(void) = (void (*)(void))dlsym(library, "use_arrays");
    EXPECT(use_arrays != NULL);
    use_arrays();
    return test_passed();
}
