/* test_limits.c - under a limit of address space or of data the heap works until the limit is
 * reached, says ENOMEM there, and goes on when memory was freed; next to nothing is charged
 * for what is only reserved; and where a program takes what lies around the heap, that goes on
 * elsewhere.
 *
 * The limits are what the process has mapped plus some, so the test runs under
 * the address sanitizer, too.
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
#include "thread/remote.h"

enum {
    N_BLOCKS_MAX = 200000,
    ROOM = 100000000, /* bytes; an owner map of the whole address space would take all of it */
    BLOCK = 4000,
    CLASS = 4096,           /* what such a block takes */
    LEAST = ROOM / 100 * 88 /* the map, heads of superblocks and one that is begun take the rest */
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

/* Free finds the owner of each block in the first owner map. */
static void expect_on_common_path(size_t n) {
    for (size_t i = 0; i < n; i++)
        EXPECT(owner_at((uintptr_t)blocks[i]) != OWNER_NONE);
}

static uint64_t live_within_limit(void) {
    struct rlimit limit = beyond("VmSize", ROOM);
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
    size_t n = fill(BLOCK);
    EXPECT(n * CLASS > LEAST);
    expect_on_common_path(n);
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
    return 0;
}

static void limit_to(size_t more) {
    exgen_free(exgen_malloc(BLOCK));
    struct rlimit limit = beyond("VmSize", more);
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* The last block of a superblock leaves it. */
static uint64_t grow_out_of_superblock(void) {
    char *first = exgen_malloc(250000);
    char *block = first;
    while (superblock_of((uintptr_t)block) == superblock_of((uintptr_t)first))
        block = exgen_malloc(250000);
    EXPECT(exgen_realloc(block, 3000000) != NULL && exgen_validate_heap());
    return 0;
}

/* With no room for more than it needs, or for a second block beside it. */
static uint64_t grow_within_limit(void) {
    limit_to(ROOM);
    void *kept = exgen_malloc(ROOM / 4);
    char *block = exgen_malloc(ROOM / 10 * 6);
    EXPECT(kept != NULL && block != NULL);
    block[0] = 1;
    exgen_free(kept);
    char *grown = exgen_realloc(block, ROOM / 100 * 95);
    EXPECT(grown != NULL && grown[0] == 1);
    exgen_free(grown);
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
    return 0;
}

/* Half of the blocks, which were used again and again and so are kept, makes room for others. */
static void expect_room_for(size_t other, size_t size) {
    static void *first[N_BLOCKS_MAX];
    size_t n = ROOM / 10 * 6 / size;
    for (size_t i = 0; i < n; i++)
        first[i] = exgen_malloc(size);
    for (size_t round = 0; round < 20; round++)
        for (size_t i = n; i-- > n / 2;) {
            exgen_free(first[i]);
            first[i] = round < 19 ? exgen_malloc(size) : NULL;
        }
    size_t n_filled = fill(other);
    EXPECT(n_filled * other > ROOM / 10 * 4);
    release(n_filled);
    for (size_t i = 0; i < n / 2; i++)
        exgen_free(first[i]);
}

static uint64_t make_room(void) {
    limit_to(ROOM);
    expect_room_for(ROOM / 2, 20000);
    expect_room_for(ROOM / 2, 100000);
    expect_room_for(250000, 100000);
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
    return 0;
}

/* Of what others sent home, what is asked for comes last. */
static uint64_t use_what_comes_home(void) {
    static void *small[10000];
    for (size_t i = 0; i < 10000; i++)
        small[i] = exgen_malloc(50);
    limit_to(ROOM);
    size_t n = fill(BLOCK);
    for (size_t i = 0; i < n; i += 8) /* no slab becomes empty */
        remote_free_slowly(NULL, blocks[i]);
    for (size_t i = 0; i < 10000; i += 8)
        remote_free_slowly(NULL, small[i]);
    EXPECT(exgen_malloc(BLOCK) != NULL);
    return 0;
}

/* Data is what is private and writable. */
static uint64_t fill_data(void) {
    struct rlimit limit = beyond("VmData", ROOM);
    EXPECT(setrlimit(RLIMIT_DATA, &limit) == 0);
    size_t n = fill(BLOCK);
    EXPECT(n * CLASS > LEAST);
    expect_on_common_path(n);
    release(n);
    return 0;
}

/* Where overcommit is strict (mode 2) the system charges what is private and writable, too. */
static uint64_t start_cheaply(void) {
    size_t data = status_bytes("VmData");
    void *block = exgen_malloc(BLOCK);
    size_t taken = status_bytes("VmData") - data;
    exgen_free(block);
    return taken;
}

/* All that is mapped, and will be, is to be in memory.  All addresses count as locked, and a limit
 * holds for what counts; those of the owner map are in no memory. */
static uint64_t lock_memory(void) {
    enum {
        MOST_RESIDENT = 3 << 20,
        MOST_LOCKED = 7 << 20
    };
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return 0;
    size_t resident = status_bytes("VmRSS");
    size_t locked = status_bytes("VmLck");
    void *block = exgen_malloc(BLOCK);
    EXPECT(block != NULL);
    EXPECT(status_bytes("VmRSS") - resident <= MOST_RESIDENT);
    EXPECT(status_bytes("VmLck") - locked <= MOST_LOCKED);
    exgen_free(block);
    return 0;
}

static void *release_elsewhere(void *n) {
    release((size_t)n);
    return NULL;
}

/* A program may take all addresses that the first owner map has: the heap goes on elsewhere. */
static uint64_t live_far_away(void) {
    enum {
        N = 8000, /* some find room between libraries */
        OWN = N / 2
    };
    exgen_free(exgen_malloc(BLOCK));
    void *hole = mmap(NULL, layout.n_places << PLACE_SHIFT, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (hole == MAP_FAILED)
        return 0; /* a sanitizer has taken them */
    size_t n_far = 0;
    for (size_t i = 0; i < N; i++) {
        blocks[i] = exgen_malloc(BLOCK);
        EXPECT(blocks[i] != NULL && owner_of_any((uintptr_t)blocks[i]) != OWNER_NONE);
        memset(blocks[i], 1, BLOCK);
        n_far += owner_at((uintptr_t)blocks[i]) == OWNER_NONE;
    }
    EXPECT(n_far > OWN);
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == N);
    run_thread(release_elsewhere, (void *)OWN);
    for (size_t i = OWN; i < N; i++) {
        EXPECT(exgen_malloc_usable_size(blocks[i]) == CLASS && blocks[i][BLOCK - 1] == 1);
        exgen_free(blocks[i]);
    }
    exgen_purge();
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
    return n_far;
}

int main(void) {
    static const char *const confs[] = {"purge_delay:60000", "superblock_size:65536", "check:true"};
    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        run_well(live_within_limit, confs[i]);
        run_well(live_far_away, confs[i]);
    }
    run_well(grow_out_of_superblock, "empty_superblocks:0,pool_superblocks:0");
    run_well(grow_within_limit, "");
    run_well(make_room, "purge_delay:60000");
    run_well(use_what_comes_home, "");
    run_well(fill_data, "");
    EXPECT(run_well(start_cheaply, "") <= 2 << 20);
    run_well(lock_memory, "");
    return test_passed();
}
