/* test_oom.c - whichever call to the system fails, the heap stays whole.
 *
 * The linker sends mmap and its relatives to the wrappers below (--wrap).  A
 * fixed story of allocations runs with the n-th call failing, for n = 1, 2,
 * ... until one run sees no failure; then with every call from the n-th on
 * failing.  After each, in a child of its own: the heap is valid, old contents
 * are kept, and nothing is in use after all is freed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "exgen.h"
#include "heap/heap.h"
#include "system/os.h"
#include "test.h"
#include "thread/thread.h"

enum {
    N_BLOCKS = 160
};

/* The calls that fail: [first_failure, last_failure]; counted from 1, in the child. */
static size_t n_calls;
static size_t first_failure = SIZE_MAX;
static size_t last_failure;

/* What the next child is to suffer. */
static size_t planned_failure;
static size_t planned_length;
static size_t n_failures;
static uint64_t luck; /* where not 0, every fourth call in the range fails, by chance */

static int fails(void) {
    n_calls++;
    if (n_calls < first_failure || n_calls > last_failure)
        return 0;
    if (luck != 0 && test_random(&luck) % 4 != 0)
        return 0;
    n_failures++;
    errno = ENOMEM;
    return 1;
}

/* Calls of one kind that all fail. */
static int refuses_munmap;
static int refuses_mprotect;

static int fails_for(int is_refused) {
    if (is_refused)
        errno = ENOMEM;
    return is_refused || fails();
}

/* As with vm.overcommit_memory 2 and Linux before 6.12: where memory is to take the place of other,
 * that goes before the call fails. */
static int is_strict;

/* Whether the heap is to be valid for other threads at each mmap. */
static int validates_in_mmap;
static size_t n_validated;

static void validate_in_mmap(void) {
    if (!validates_in_mmap)
        return;
    EXPECT(exgen_validate_heap());
    n_validated++;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
void *__real_mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_munmap(void *start, size_t bytes);
int __wrap_munmap(void *start, size_t bytes);
int __real_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice);
int __real_mprotect(void *start, size_t bytes, int protection);
int __wrap_mprotect(void *start, size_t bytes, int protection);
void *__real_mremap(void *start, size_t old_bytes, size_t new_bytes, int flags, ...);
void *__wrap_mremap(void *start, size_t old_bytes, size_t new_bytes, int flags, ...);

void *__wrap_mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset) {
    validate_in_mmap();
    if (!fails())
        return __real_mmap(start, bytes, protection, flags, file, offset);
    if (is_strict && (flags & MAP_FIXED) != 0 && (protection & PROT_WRITE) != 0)
        __real_munmap(start, bytes);
    return MAP_FAILED;
}

int __wrap_open(const char *path, int flags, ...) {
    int ends[2];
    if (!is_strict || strcmp(path, "/proc/sys/vm/overcommit_memory") != 0)
        return __real_open(path, flags);
    EXPECT(pipe(ends) == 0 && write(ends[1], "2\n", 2) == 2 && close(ends[1]) == 0);
    return ends[0];
}

int __wrap_munmap(void *start, size_t bytes) {
    return fails_for(refuses_munmap) ? -1 : __real_munmap(start, bytes);
}

int __wrap_madvise(void *start, size_t bytes, int advice) {
    return fails() ? -1 : __real_madvise(start, bytes, advice);
}

int __wrap_mprotect(void *start, size_t bytes, int protection) {
    return fails_for(refuses_mprotect) ? -1 : __real_mprotect(start, bytes, protection);
}

void *__wrap_mremap(void *start, size_t old_bytes, size_t new_bytes, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    void *to = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    return fails() ? MAP_FAILED : __real_mremap(start, old_bytes, new_bytes, flags, to);
}

static unsigned char *blocks[N_BLOCKS];
static size_t sizes[N_BLOCKS];

/* Some grow within a superblock, one out of it, and some outside. */
static size_t size_of_step(size_t i) {
    static const size_t pattern[] = {24, 200, 3000, 20000, 90000, 300000, 900000, 64, 5000, 190000};
    return pattern[i % 10] + i;
}

static void fill(size_t i) {
    blocks[i][0] = blocks[i][sizes[i] - 1] = (unsigned char)i;
}

static void allocate_step(size_t i) {
    sizes[i] = size_of_step(i);
    errno = 0;
    blocks[i] = i % 7 == 3 ? exgen_memalign(65536, sizes[i]) : exgen_malloc(sizes[i]);
    if (blocks[i] != NULL)
        fill(i);
    else
        EXPECT(errno == ENOMEM);
}

static void resize_step(size_t i) {
    size_t size = sizes[i] * 3 / 2;
    if (blocks[i] == NULL)
        return;
    unsigned char *p = exgen_realloc(blocks[i], size);
    unsigned char *q = p != NULL ? p : blocks[i];
    EXPECT(q[0] == (unsigned char)i && q[sizes[i] - 1] == (unsigned char)i);
    if (p != NULL) {
        blocks[i] = p;
        sizes[i] = size;
        fill(i);
    }
}

static uint64_t story(void) {
    n_calls = 0;
    first_failure = planned_failure;
    last_failure = planned_length == SIZE_MAX ? SIZE_MAX : planned_failure + planned_length - 1;
    for (size_t i = 0; i < N_BLOCKS; i++) {
        allocate_step(i);
        if (i >= 40 && i % 3 == 0)
            resize_step(i - 40);
        if (i >= 50 && i % 2 == 0) {
            exgen_free(blocks[i - 50]);
            blocks[i - 50] = NULL;
        }
    }
    EXPECT(exgen_validate_heap());
    first_failure = SIZE_MAX;
    EXPECT(exgen_malloc(2000000) != NULL || n_failures == 0);
    for (size_t i = 0; i < N_BLOCKS; i++) {
        EXPECT(blocks[i] == NULL || blocks[i][sizes[i] - 1] == (unsigned char)i);
        exgen_free(blocks[i]);
    }
    exgen_purge();
    EXPECT(exgen_validate_heap());
    EXPECT(exgen_check_leaks(0) <= 1);
    return n_failures;
}

static void run_until_nothing_fails(size_t length, const char *conf) {
    for (size_t n = 1;; n++) {
        planned_failure = n;
        planned_length = length;
        struct outcome o = run_in_child(story, conf);
        if (o.status != 0)
            fprintf(stderr, "call %zu failing, %zu long, conf %s: %s", n, length, conf, o.output);
        EXPECT(o.status == 0);
        if (o.value == 0)
            return;
        EXPECT(n < 5000);
    }
}

static void run_while_some_fail(const char *conf) {
    planned_failure = 1;
    planned_length = SIZE_MAX;
    for (luck = 1; luck <= 20; luck++) {
        struct outcome o = run_in_child(story, conf);
        if (o.status != 0)
            fprintf(stderr, "seed %llu, conf %s: %s", (unsigned long long)luck, conf, o.output);
        EXPECT(o.status == 0 && o.value > 0);
    }
    luck = 0;
}

/* --- single calls that are refused --- */

enum {
    LARGE = 1 << 20,
    N_SMALL = 3000
};

/* As near the limit of mappings. */
static uint64_t memory_goes_where_addresses_have_to_stay(void) {
    char *p = memset(exgen_malloc(LARGE), 1, LARGE);
    EXPECT(test_resident_pages(p, LARGE) == LARGE / os_page_bytes());
    refuses_munmap = 1;
    exgen_free(p);
    EXPECT(test_resident_pages(p, LARGE) == 0);
    refuses_munmap = 0;
    EXPECT(exgen_validate_heap());
    return 0;
}

static uint64_t configuration_of_what_could_not_start(void) {
    char json[4096];
    first_failure = 1;
    last_failure = SIZE_MAX;
    EXPECT(exgen_malloc(1) == NULL && errno == ENOMEM);
    EXPECT(exgen_config_json(json, sizeof json) < sizeof json);
    EXPECT(strstr(json, "\"most_batch\":0") != NULL);
    return 0;
}

static uint64_t start_fails_twice(void) {
    first_failure = 1;
    last_failure = SIZE_MAX;
    EXPECT(exgen_malloc(1) == NULL && exgen_malloc(1) == NULL);
    first_failure = SIZE_MAX;
    EXPECT(exgen_malloc(1) != NULL);
    return 0;
}

static void bad_entry_is_reported_once(void) {
    struct outcome o = run_in_child(start_fails_twice, "check:maybe");
    EXPECT(o.status == 0);
    EXPECT(strcmp(o.output, "exgen: EXGEN_CONF: check:maybe: allowed is true or false\n") == 0);
}

static void *small[N_SMALL];

static void take_and_give_small(void) {
    for (size_t i = 0; i < N_SMALL; i++)
        EXPECT((small[i] = exgen_malloc(100)) != NULL);
    for (size_t i = 0; i < N_SMALL; i++)
        exgen_free(small[i]);
}

static void *end_while_guards_stay(void *left) {
    take_and_give_small();
    *(void **)left = exgen_malloc(100);
    refuses_mprotect = 1;
    exgen_purge();
    refuses_mprotect = 0;
    EXPECT(exgen_validate_heap());
    return NULL;
}

/* Empty slabs whose guards cannot be taken away stay, and are used when another heap has them. */
static uint64_t slabs_stay_whose_guards_have_to(void) {
    void *left;
    exgen_free(exgen_malloc(100));
    run_thread(end_while_guards_stay, &left);
    EXPECT(exgen_validate_heap() && thread_adopt(local.heap) && exgen_validate_heap());
    take_and_give_small();
    exgen_free(left);
    exgen_purge();
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
    return 0;
}

/* --- what others find while a call to the system is under way --- */

/* With a table that is full (63 of 64 descriptions), a block is taken out of the middle of the only
 * one that is kept; of the two that are left one may stay, also while the table grows. */
static uint64_t limits_hold_while_the_table_grows(void) {
    char *kept = exgen_memalign(2 * LARGE, 5 * LARGE);
    exgen_free(kept);
    EXPECT(exgen_malloc(LARGE / 2) == kept);
    for (size_t i = 2; i < 63; i++)
        EXPECT(exgen_malloc(12 * LARGE) != NULL); /* to which what is kept is no help */
    n_validated = 0;
    validates_in_mmap = 1;
    EXPECT(exgen_memalign(2 * LARGE, LARGE) == kept + 2 * LARGE);
    validates_in_mmap = 0;
    EXPECT(n_validated == 1);
    return 0;
}

int main(void) {
    run_well(memory_goes_where_addresses_have_to_stay, "large_cache_count:0");
    run_well(configuration_of_what_could_not_start, "");
    bad_entry_is_reported_once();
    run_well(slabs_stay_whose_guards_have_to, "secure:true");
    run_well(limits_hold_while_the_table_grows,
             "purge_delay:60000,large_cache_count:1,large_cache_bytes:16777216");
    run_while_some_fail("");
    run_while_some_fail("purge_delay:0,pool_superblocks:0,large_cache_count:0");
    run_until_nothing_fails(1, "");
    run_until_nothing_fails(3, "purge_delay:0");
    run_until_nothing_fails(1, "secure:true");
    run_until_nothing_fails(1, "purge_delay:0,purge_how:unmap");
    is_strict = 1;
    run_until_nothing_fails(1, "purge_delay:0,purge_how:unmap");
    is_strict = 0;
    run_until_nothing_fails(SIZE_MAX, "pool_superblocks:0,large_cache_count:0");
    return test_passed();
}
