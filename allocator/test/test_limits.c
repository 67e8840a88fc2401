/* test_limits.c - under a limit of address space the heap works until the limit is
 * reached, says ENOMEM there, and goes on when memory was freed.
 *
 * The limit is what the process has mapped plus some, so the test runs under
 * sanitizers, too.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"
#include "exgen.h"
#include "memory/superblock.h"
#include "test.h"

enum {
    N_BLOCKS_MAX = 200000,
    ROOM = 48 << 20 /* bytes, less than the owner map of the whole address space */
};

static char *blocks[N_BLOCKS_MAX];

static void limit_address_space(size_t more) {
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long pages;
    EXPECT(statm != NULL && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    EXPECT(setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) == 0);
}

static size_t fill(size_t size) {
    size_t n = 0;
    errno = 0;
    while (n < N_BLOCKS_MAX && (blocks[n] = exgen_malloc(size)) != NULL)
        memset(blocks[n++], 1, 16);
    EXPECT(errno == ENOMEM);
    return n;
}

static void release(size_t n) {
    for (size_t i = 0; i < n; i++) {
        EXPECT(blocks[i][0] == 1);
        exgen_free(blocks[i]);
    }
}

static uint64_t live_within_limit(void) {
    limit_address_space(ROOM);
    size_t n = fill(1000);
    EXPECT(n > ROOM / 1000 / 2);
    release(n);
    EXPECT(exgen_validate_heap());
    exgen_purge();
    size_t n_large = fill(1000000);
    EXPECT(n_large > ROOM / 1000000 / 2);
    release(n_large);
    void *other = exgen_memalign(65536, 100000);
    EXPECT(other != NULL);
    exgen_free(other);
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
    return layout.shift;
}

int main(void) {
    static const char *const confs[] = {"", "superblock_size:65536", "check:true"};
    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        struct outcome o = run_in_child(live_within_limit, confs[i]);
        fprintf(stderr, "%s", o.output);
        EXPECT(o.status == 0);
        EXPECT(o.value == 63); /* the small map was in use */
    }
    return test_passed();
}
