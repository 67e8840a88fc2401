/* test_pages.c - pages as long as aarch64 may have them: what lies on the page of something else
 * stays.
 *
 * The linker sends sysconf to the function below (--wrap): a page is then 64 KiB.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/options.h"
#include "child.h"
#include "test.h"

enum {
    PAGE = 65536,
    N_BLOCKS = 4000,
    N_READ = 300
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

/* Units on the page of a superblock's head do not go back, so they are not zero. */
static uint64_t zero_what_was_purged(void) {
    static char *blocks[N_BLOCKS];
    static const char zeros[20000];
    for (size_t i = 0; i < N_BLOCKS; i++)
        memset(blocks[i] = exgen_malloc(3000), 0xAA, 3000);
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (i % 330 != 329)
            exgen_free(blocks[i]);
    exgen_purge();
    for (size_t i = 0; i < N_READ; i++)
        EXPECT(memcmp(exgen_calloc(1, sizeof zeros), zeros, sizeof zeros) == 0);
    return 0;
}

/* One of less would be unmapped with those beside it. */
static uint64_t superblock_bytes(void) {
    exgen_free(exgen_malloc(10));
    return options.superblock_size;
}

static uint64_t write_behind_large(void) {
    signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own */
    volatile char *block = exgen_malloc(PAGE);
    block[PAGE] = 0;
    return 0;
}

int main(void) {
    run_well(align_first, "");
    run_well(round_first, "");
    run_well(zero_what_was_purged, "purge_delay:60000");
    EXPECT(run_well(superblock_bytes, "superblock_size:16384") == PAGE);
    struct outcome o = run_in_child(write_behind_large, "secure:true");
    EXPECT(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGSEGV);
    return test_passed();
}
