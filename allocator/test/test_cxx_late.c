/* test_cxx_late.c - where the C++ library comes with a plugin, new throws as it does elsewhere.
 *
 * test_cxx_late PLUGIN.  A C program, as the interpreters are that load extensions in C++.
 */
#include <dlfcn.h>

#include "exgen.h"
#include "test.h"

int main(int count, char **arguments) {
    EXPECT(count == 2);
    void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    EXPECT(plugin != NULL);
    int (*memory_runs_out)(void) = (int (*)(void))dlsym(plugin, "memory_runs_out");
    EXPECT(memory_runs_out != NULL && memory_runs_out() == 1);
    EXPECT(exgen_validate_heap());
    return test_passed();
}
