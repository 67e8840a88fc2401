/* test_pages.c - valloc and pvalloc know the system's pages, also where they are a process' first
 * allocation.
 *
 * The linker sends sysconf to the function below (--wrap): pages are as long as aarch64 may have
 * them.
 */
#include <unistd.h>

#include "child.h"
#include "test.h"

enum {
    PAGE = 65536
};

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name) {
    return name == _SC_PAGESIZE ? PAGE : __real_sysconf(name);
}

static uint64_t align_first(void) {
    char *block = exgen_valloc(10);
    EXPECT(block != NULL && (uintptr_t)block % PAGE == 0);
    exgen_free(block);
    return 0;
}

static uint64_t round_first(void) {
    char *block = exgen_pvalloc(10);
    EXPECT((uintptr_t)block % PAGE == 0 && exgen_malloc_usable_size(block) >= PAGE);
    exgen_free(block);
    return 0;
}

int main(void) {
    run_well(align_first, "");
    run_well(round_first, "");
    return test_passed();
}
