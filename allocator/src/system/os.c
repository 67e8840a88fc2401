/* os.c - memory and time from Linux; see os.h for the contract.
 *
 * Aligned mappings: Linux hands out addresses from the top down, so right
 * after an aligned mapping the next one of the same size is aligned too.  We
 * therefore try a plain mapping first and cut an oversized one only when that
 * misses; in a steady state one superblock costs one system call.
 *
 * The clock is clock_gettime through the dynamic symbol, on purpose: a
 * replaying emulator defines its own, and purge delays then run on its clock.
 */
#include "system/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"

/* All state of this module. */
static struct {
    size_t page_bytes;           /* of the system, set once */
    struct os_counters counters; /* relaxed atomics */
    int moves_out;               /* whether os_move_out works here: 1, -1 no, 0 not known yet */
    uintptr_t sparse;            /* atomic: where os_clear last found few pages written */
    int n_unseen;                /* atomic: how often it may trust that without a look */
    bool is_strict;              /* the system refuses memory that it might not have, set once */
} os = {.page_bytes = 4096};

static void count_mapped(size_t bytes) {
    size_t now = __atomic_add_fetch(&os.counters.mapped_bytes, bytes, __ATOMIC_RELAXED);
    size_t peak = __atomic_load_n(&os.counters.mapped_peak_bytes, __ATOMIC_RELAXED);
    while (now > peak && !__atomic_compare_exchange_n(&os.counters.mapped_peak_bytes, &peak, now,
                                                      true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    __atomic_add_fetch(&os.counters.n_maps, 1, __ATOMIC_RELAXED);
}

void os_init(void) {
    long bytes = sysconf(_SC_PAGESIZE);
    if (bytes > 0)
        os.page_bytes = (size_t)bytes;
}

size_t os_page_bytes(void) {
    return os.page_bytes;
}

static void *map(size_t bytes, int protection) {
    int saved = errno;
    void *start = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (start == MAP_FAILED)
        return NULL;
    count_mapped(bytes);
    return start;
}

void *os_map(size_t bytes) {
    return map(bytes, PROT_READ | PROT_WRITE);
}

void *os_reserve_zeros(size_t bytes) {
    return map(bytes, PROT_READ);
}

size_t os_address_space_bytes(void) {
    struct rlimit limit;
    int saved = errno;
    bool is_known = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    errno = saved;
    return is_known ? (size_t)limit.rlim_cur : SIZE_MAX;
}

/* The number in a file of the system; 0 if it cannot be read. */
COLD static size_t read_number(const char *path) {
    char text[24];
    size_t n = 0;
    int saved = errno;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n_bytes = fd >= 0 ? read(fd, text, sizeof text) : 0;
    for (ssize_t i = 0; i < n_bytes && text[i] >= '0' && text[i] <= '9'; i++)
        n = 10 * n + (size_t)(text[i] - '0');
    if (fd >= 0)
        close(fd);
    errno = saved;
    return n;
}

size_t os_most_mappings(void) {
    enum {
        USUAL = 65530 /* DEFAULT_MAX_MAP_COUNT of Linux */
    };
    size_t n = read_number("/proc/sys/vm/max_map_count");
    return n > 0 ? n : USUAL;
}

void os_init_unmapping(void) {
    enum {
        NEVER_MORE = 2 /* OVERCOMMIT_NEVER of Linux */
    };
    os.is_strict = read_number("/proc/sys/vm/overcommit_memory") == NEVER_MORE;
}

void *os_map_aligned(size_t bytes, size_t alignment) {
    char *start = os_map(bytes);
    if (start == NULL || ((uintptr_t)start & (alignment - 1)) == 0)
        return start;
    os_unmap(start, bytes);
    if (bytes > SIZE_MAX - alignment)
        return NULL;
    start = os_map(bytes + alignment);
    if (start == NULL)
        return NULL;
    char *aligned = (char *)round_up((uintptr_t)start, alignment);
    size_t before = (size_t)(aligned - start);
    if (before > 0)
        os_unmap(start, before);
    if (before < alignment)
        os_unmap(aligned + bytes, alignment - before);
    return aligned;
}

/* Near the limit of mappings an unmap that would cut one in two is refused: then the memory goes
 * back, at least. */
bool os_unmap(void *start, size_t bytes) {
    int saved = errno;
    bool done = munmap(start, bytes) == 0;
    if (!done)
        madvise(start, bytes, MADV_DONTNEED);
    errno = saved;
    if (done) {
        __atomic_sub_fetch(&os.counters.mapped_bytes, bytes, __ATOMIC_RELAXED);
        __atomic_add_fetch(&os.counters.n_unmaps, 1, __ATOMIC_RELAXED);
    }
    return done;
}

bool os_retire(void *start, size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    int saved = errno;
    bool done = mmap(start, bytes, PROT_NONE, flags, -1, 0) == start;
    errno = saved;
    return done;
}

/* Other, untouched memory in the place of whole pages.  Linux (before 6.12) unmaps those before it
 * counts what it commits itself to: where that is refused, nothing would be left there. */
static bool map_anew(void *start, size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (os.is_strict || mmap(start, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != start)
        return false;
    __atomic_sub_fetch(&os.counters.mapped_bytes, bytes, __ATOMIC_RELAXED);
    count_mapped(bytes);
    return true;
}

bool os_purge(void *start, size_t bytes, uint64_t how) {
    uintptr_t from = round_up((uintptr_t)start, os.page_bytes);
    uintptr_t to = round_down((uintptr_t)start + bytes, os.page_bytes);
    if (from >= to)
        return false;
    int saved = errno;
    bool done =
        (how == PURGE_UNMAP && map_anew((void *)from, to - from)) ||
        madvise((void *)from, to - from, how == PURGE_FREE ? MADV_FREE : MADV_DONTNEED) == 0;
    errno = saved;
    if (done)
        __atomic_add_fetch(&os.counters.n_purges, 1, __ATOMIC_RELAXED);
    return done;
}

/* Make pages zero by giving them back, so that those that are touched next take a page fault. */
static bool drop_pages(char *start, size_t n) {
    return madvise(start, n * os.page_bytes, MADV_DONTNEED) == 0;
}

static bool is_zero_page(const char *page) {
    return *page == 0 && memcmp(page, page + 1, os.page_bytes - 1) == 0;
}

/* Make pages zero by writing to those that are not.  A page that was only read is in memory, too,
 * as one that it shares with all others; a write would give it memory of its own.  Behind pages
 * that are not zero come more such as a rule, so that the looks grow rare. */
static void write_zeros(char *start, size_t n) {
    enum {
        MOST_UNSEEN = 16
    };
    size_t unseen = 1;
    for (size_t done = 0; done < n;) {
        char *page = start + done * os.page_bytes;
        size_t step = unseen < n - done ? unseen : n - done;
        if (is_zero_page(page)) {
            step = unseen = 1;
        } else {
            memset(page, 0, step * os.page_bytes);
            unseen = unseen < MOST_UNSEEN ? 2 * unseen : MOST_UNSEEN;
        }
        done += step;
    }
}

/* Make runs of pages zero: by writing, where they are in memory; pages that are not were never
 * written or are in the swap, and are dropped, which is free. */
static void clear_runs(char *start, size_t n, const unsigned char *resident) {
    for (size_t from = 0, to = 0; from < n; from = to) {
        while (to < n && ((resident[to] ^ resident[from]) & 1) == 0)
            to++;
        char *run = start + from * os.page_bytes;
        if ((resident[from] & 1) != 0 || !drop_pages(run, to - from))
            write_zeros(run, to - from);
    }
}

/* A program that wrote few pages the last time will do so again: those take fewer faults than all
 * pages of a block that stays resident take time to write.  True if there were few. */
static bool clear_pages(char *start, size_t n, const unsigned char *resident) {
    enum {
        FEW = 16,      /* ... a part of all pages */
        MOST_RUNS = 32 /* more cost more calls than writing everything takes */
    };
    size_t n_resident = resident[0] & 1;
    size_t n_runs = 1;
    for (size_t i = 1; i < n; i++) {
        n_resident += resident[i] & 1;
        n_runs += (resident[i] ^ resident[i - 1]) & 1;
    }
    if (n_resident <= n / FEW && drop_pages(start, n))
        return true;
    if (n_runs <= MOST_RUNS)
        clear_runs(start, n, resident);
    else
        write_zeros(start, n);
    return false;
}

/* Which pages were written, guessed from the first of every few: what is not zero may be dropped,
 * too, only that it takes page faults. */
COLD static void guess_resident(const char *start, size_t n, unsigned char *resident) {
    enum {
        N_ALIKE = 8
    };
    for (size_t i = 0; i < n; i++)
        resident[i] = i % N_ALIKE == 0 ? !is_zero_page(start + i * os.page_bytes) : resident[i - 1];
}

/* Which pages are in memory.  The filter of a sandbox may end the process at mincore, which
 * systemd's @system-service does not have. */
static void look_at_pages(char *start, size_t n, unsigned char *resident) {
    if (prctl(PR_GET_SECCOMP) > 0 || mincore(start, n * os.page_bytes, resident) != 0)
        guess_resident(start, n, resident);
}

/* Clear whole pages after a look at which of them were written; true if those were few. */
static bool look_and_clear(char *start, size_t n_pages) {
    enum {
        N_PAGES = 256 /* looked at with one call */
    };
    unsigned char resident[N_PAGES];
    bool is_sparse = true;
    for (size_t left = n_pages, n; left > 0; left -= n, start += n * os.page_bytes) {
        n = left < N_PAGES ? left : N_PAGES;
        look_at_pages(start, n, resident);
        is_sparse = clear_pages(start, n, resident) && is_sparse;
    }
    return is_sparse;
}

/* A block that comes and goes at one place is looked at every few times. */
static bool clear_unseen(char *start, size_t n_pages) {
    if (__atomic_load_n(&os.sparse, __ATOMIC_RELAXED) != (uintptr_t)start ||
        __atomic_load_n(&os.n_unseen, __ATOMIC_RELAXED) <= 0)
        return false;
    __atomic_sub_fetch(&os.n_unseen, 1, __ATOMIC_RELAXED);
    return drop_pages(start, n_pages);
}

void os_clear(void *start, size_t bytes) {
    enum {
        N_UNSEEN = 7
    };
    size_t n_pages = bytes / os.page_bytes;
    int saved = errno;
    if (n_pages > 0 && !clear_unseen(start, n_pages) && look_and_clear(start, n_pages)) {
        __atomic_store_n(&os.sparse, (uintptr_t)start, __ATOMIC_RELAXED);
        __atomic_store_n(&os.n_unseen, N_UNSEEN, __ATOMIC_RELAXED);
    }
    memset((char *)start + n_pages * os.page_bytes, 0, bytes % os.page_bytes);
    errno = saved;
}

void os_populate(void *start, size_t bytes) {
    for (size_t at = 0; at < bytes; at += os.page_bytes)
        ((volatile char *)start)[at] = 0;
}

void *os_remap(void *start, size_t old_bytes, size_t new_bytes) {
    int saved = errno;
    void *moved = mremap(start, old_bytes, new_bytes, MREMAP_MAYMOVE);
    errno = saved;
    if (moved == MAP_FAILED)
        return NULL;
    __atomic_sub_fetch(&os.counters.mapped_bytes, old_bytes, __ATOMIC_RELAXED);
    count_mapped(new_bytes);
    return moved;
}

/* Whether pages can be moved away such that the place they leave stays ordinary memory.
 * Linux before 5.7 refuses; QEMU's user emulation (7.2) does it, but forgets the place, so that
 * giving memory back has no effect there any more. */
COLD static int try_to_move_out(void) {
    volatile char *page = os_map(os.page_bytes);
    if (page == NULL)
        return 0;
    int result = -1;
    void *start = (void *)(uintptr_t)page;
    void *moved =
        mremap(start, os.page_bytes, os.page_bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (moved != MAP_FAILED) {
        count_mapped(os.page_bytes);
        *page = 1;
        if (os_purge(start, os.page_bytes, PURGE_DONTNEED) && *page == 0)
            result = 1;
        os_unmap(moved, os.page_bytes);
    }
    os_unmap(start, os.page_bytes);
    return result;
}

static bool moves_out(void) {
    int known = __atomic_load_n(&os.moves_out, __ATOMIC_RELAXED);
    if (known == 0) {
        int saved = errno;
        known = try_to_move_out();
        errno = saved;
        __atomic_store_n(&os.moves_out, known, __ATOMIC_RELAXED);
    }
    return known > 0;
}

/* Bring pages back to the place that they left, which is still mapped.  A move needs no memory, but
 * is refused near the limit of mappings (vm.max_map_count); a copy is not. */
COLD static void move_home(void *start, void *moved, size_t bytes) {
    if (mremap(moved, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) == start) {
        __atomic_sub_fetch(&os.counters.mapped_bytes, bytes, __ATOMIC_RELAXED);
    } else {
        memcpy(start, moved, bytes);
        os_unmap(moved, bytes);
    }
}

void *os_move_out(void *start, size_t old_bytes, size_t new_bytes) {
    if (!moves_out())
        return NULL;
    int saved = errno;
    void *grown = NULL;
    void *moved = mremap(start, old_bytes, old_bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (moved != MAP_FAILED) {
        count_mapped(old_bytes);
        grown = os_remap(moved, old_bytes, new_bytes);
        if (grown == NULL)
            move_home(start, moved, old_bytes);
    }
    errno = saved;
    return grown;
}

bool os_protect(void *start, size_t bytes, bool forbid) {
    int saved = errno;
    bool done = mprotect(start, bytes, forbid ? PROT_NONE : PROT_READ | PROT_WRITE) == 0;
    errno = saved;
    return done;
}

void os_advise_huge(void *start, size_t bytes, bool want) {
    int saved = errno;
    madvise(start, bytes, want ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    errno = saved;
}

uint64_t os_clock_ms(void) {
    struct timespec now = {0, 0};
    int saved = errno;
    clock_gettime(CLOCK_MONOTONIC, &now);
    errno = saved;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Not by the C library's function, which is a cancellation point. */
void os_sleep_ms(uint64_t ms) {
    int saved = errno;
    struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, &time) != 0 && errno == EINTR) {
    }
    errno = saved;
}

static long membarrier(int command) {
    int saved = errno;
    long result = syscall(SYS_membarrier, command, 0, 0);
    errno = saved;
    return result;
}

bool os_fence_threads(void) {
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
        return true;
    return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
           membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

/* By the system call: the C library's function does not show its own signals. */
bool os_thread_ends(void) {
    enum {
        OF_GLIBC = 32 /* its first, for the cancellation of threads; programs cannot block it */
    };
    uint64_t blocked = 0;
    int saved = errno;
    bool is_known = syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, sizeof blocked) == 0;
    errno = saved;
    return is_known && (blocked >> (OF_GLIBC - 1) & 1) != 0;
}

uint64_t os_random(void) {
    uint64_t n = 0;
    int saved = errno;
    if (getrandom(&n, sizeof n, GRND_NONBLOCK) != sizeof n) {
        /* An old kernel, or early in the boot: what the kernel gave the process at its start. */
        const void *bytes = (const void *)getauxval(AT_RANDOM);
        if (bytes != NULL)
            memcpy(&n, bytes, sizeof n);
        n = (n ^ os_clock_ms()) * 0x9e3779b97f4a7c15u;
    }
    errno = saved;
    return n;
}

struct os_counters os_read_counters(void) {
    struct os_counters c = {
        .mapped_bytes = __atomic_load_n(&os.counters.mapped_bytes, __ATOMIC_RELAXED),
        .mapped_peak_bytes = __atomic_load_n(&os.counters.mapped_peak_bytes, __ATOMIC_RELAXED),
        .n_maps = __atomic_load_n(&os.counters.n_maps, __ATOMIC_RELAXED),
        .n_unmaps = __atomic_load_n(&os.counters.n_unmaps, __ATOMIC_RELAXED),
        .n_purges = __atomic_load_n(&os.counters.n_purges, __ATOMIC_RELAXED),
    };
    return c;
}
