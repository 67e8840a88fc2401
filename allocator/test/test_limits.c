/* test_limits.c - under a limit of address space or of data the heap works until the limit is
 * reached, says ENOMEM there, and goes on when memory was freed; and next to nothing is charged
 * for what is only reserved.
 *
 * The limits are what the process has mapped plus some, so the test runs under
 * sanitizers, too.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"
#include "exgen.h"
#include "memory/superblock.h"
#include "test.h"

enum {
    N_BLOCKS_MAX = 200000,
    ROOM = 100000000, /* bytes; the owner map of the whole address space would take all of it */
    BLOCK = 4000,
    CLASS = 4096,           /* what such a block takes */
    LEAST = ROOM / 100 * 92 /* heads of superblocks and one that is begun take the rest */
};

static char *blocks[N_BLOCKS_MAX];

/* A line of /proc/self/status in bytes. */
static size_t status_bytes(const char *name) {
    char line[256];
    unsigned long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    EXPECT(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            EXPECT(sscanf(line + strlen(name), ": %lu kB", &kib) == 1);
    fclose(status);
    return (size_t)kib << 10;
}

/* What a line of /proc/self/status says, and some more. */
static struct rlimit beyond(const char *name, size_t more) {
    rlim_t most = status_bytes(name) + more;
    return (struct rlimit){most, most};
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
    struct rlimit limit = beyond("VmSize", ROOM);
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
    size_t n = fill(BLOCK);
    EXPECT(n * CLASS > LEAST);
    release(n);
    EXPECT(exgen_validate_heap());
    exgen_purge();
    size_t n_large = fill(1000000);
    EXPECT(n_large > ROOM / 1000000 / 2);
    release(n_large);
    void *half = exgen_malloc(ROOM / 2); /* instead of what is kept */
    EXPECT(half != NULL);
    exgen_free(half);
    n = fill(BLOCK); /* likewise */
    EXPECT(n * CLASS > ROOM / 4 * 3);
    release(n);
    void *other = exgen_memalign(65536, 100000);
    EXPECT(other != NULL);
    exgen_free(other);
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
    return layout.shift;
}

/* Data is what is private and writable. */
static uint64_t fill_data(void) {
    struct rlimit limit = beyond("VmData", ROOM);
    EXPECT(setrlimit(RLIMIT_DATA, &limit) == 0);
    size_t n = fill(BLOCK);
    EXPECT(n * CLASS > LEAST);
    release(n);
    return layout.shift;
}

/* Where overcommit is strict (mode 2) the system charges what is private and writable, too. */
static uint64_t start_cheaply(void) {
    size_t data = status_bytes("VmData");
    void *block = exgen_malloc(BLOCK);
    size_t taken = status_bytes("VmData") - data;
    exgen_free(block);
    return taken;
}

/* All that is mapped, and will be, is to be in memory. */
static uint64_t lock_memory(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return 0;
    size_t resident = status_bytes("VmRSS");
    void *block = exgen_malloc(BLOCK);
    size_t taken = status_bytes("VmRSS") - resident;
    exgen_free(block);
    return taken;
}

static struct outcome run(scenario part, const char *conf) {
    struct outcome o = run_in_child(part, conf);
    fprintf(stderr, "%s", o.output);
    EXPECT(o.status == 0);
    return o;
}

int main(void) {
    static const char *const confs[] = {"purge_delay:60000", "superblock_size:65536", "check:true"};
    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        EXPECT(run(live_within_limit, confs[i]).value == 63); /* with the small map */
    }
    EXPECT(run(fill_data, "").value == 20); /* with the whole map */
    EXPECT(run(start_cheaply, "").value <= 2 << 20);
    EXPECT(run(lock_memory, "").value <= 3 << 20);
    return test_passed();
}
