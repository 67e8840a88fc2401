/* touch.c - see touch.h.
 *
 * The table is open addressing with linear probing (Knuth, The Art of Computer Programming
 * volume 3, section 6.4, algorithms L and R) under a lock that only large blocks take.
 */
#include "touch/touch.h"

#include "base/clock.h"
#include "base/real.h"
#include "spool/file.h"
#include "touch/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TABLE_SLOTS = 1 << 17,
    TABLE_MOST = TABLE_SLOTS / 2,
    MOST_STRIDES = 4096,
    /* Share of the time that each part of the work may take on a processor, and what it may take
     * at once. */
    BUDGET_SHARE = 100,
    BUDGET_START_NS = 10000000,
    /* A page that was taken away comes back at about this many times the cost of taking it
     * (1.6 and 0.1 microseconds where this was written). */
    RETURN_COST = 16,
};

enum work {
    LOOKING,
    CLEARING, /* pages of recycled blocks: dear, so that looking has a budget of its own */
    N_WORKS
};

uint8_t touch_filter[1 << TOUCH_FILTER_BITS];

static struct {
    struct touch_block *table; /* TABLE_SLOTS */
    size_t n_blocks;
    uint32_t n_numbers;                         /* given out */
    uint32_t n_strides;                         /* of answers */
    struct touch_stride *strides[MOST_STRIDES]; /* mapped from the spool */
    uint64_t start_ns;
    uint64_t spent_ns[N_WORKS]; /* atomic */
    bool disabled_huge_pages;
    bool is_on;
    char lock; /* guards table, numbers and strides */
} touch;

/* This thread has the lock or waits for it: a signal handler must not. */
static __thread volatile bool is_inside __attribute__((tls_model("initial-exec")));

static void lock_touch(void) {
    is_inside = true;
    while (__atomic_test_and_set(&touch.lock, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock_touch(void) {
    __atomic_clear(&touch.lock, __ATOMIC_RELEASE);
    is_inside = false;
}

/* ---- time ---- */

static void charge(enum work work, uint64_t ns) {
    __atomic_fetch_add(&touch.spent_ns[work], ns, __ATOMIC_RELAXED);
}

static bool has_budget(enum work work) {
    uint64_t elapsed_ns = clock_monotonic_ns() - touch.start_ns;
    return __atomic_load_n(&touch.spent_ns[work], __ATOMIC_RELAXED) <
           BUDGET_START_NS + elapsed_ns / BUDGET_SHARE;
}

/* ---- pages ---- */

static bool count_pages(struct range range, uint64_t *n_pages) {
    uint64_t start_ns = clock_thread_ns();
    bool is_known = pages_count(range, n_pages);
    charge(LOOKING, clock_thread_ns() - start_ns);
    return is_known;
}

static bool drop_pages(struct range range) {
    uint64_t start_ns = clock_thread_ns();
    long status = syscall(SYS_madvise, range.begin, range.end - range.begin, MADV_DONTNEED);
    charge(CLEARING, (clock_thread_ns() - start_ns) * RETURN_COST);
    return status == 0;
}

/* Makes the pages of the range untouched, which are as a rule when they are fresh. */
static bool clear_pages(struct range range) {
    uint64_t n_pages = 0;
    if (range.begin == range.end)
        return true;
    return count_pages(range, &n_pages) &&
           (n_pages == 0 || (has_budget(CLEARING) && drop_pages(range)));
}

static bool is_zero(uintptr_t page) {
    const uint64_t *words = (const void *)page;
    size_t n = pages_bytes() / sizeof *words;
    uint64_t all = 0;
    for (size_t i = 0; i < n && all == 0; i++)
        all |= words[i];
    return all == 0;
}

/* Makes pages of zeros untouched, which changes nothing of what they hold. */
static bool clear_zeros(struct range range) {
    uint64_t start_ns = clock_thread_ns();
    bool is_clear = true;
    struct range run = {range.begin, range.begin};
    for (; run.end < range.end && is_clear; run.end += pages_bytes())
        if (!is_zero(run.end)) {
            is_clear = run.begin == run.end || drop_pages(run);
            run.begin = run.end + pages_bytes();
        }
    charge(LOOKING, clock_thread_ns() - start_ns);
    return is_clear && (run.begin >= run.end || drop_pages(run));
}

/* ---- answers ---- */

/* Room for one more; 0: there is none.  The lock is held. */
static uint32_t take_number(void) {
    uint32_t number = touch.n_numbers + 1;
    uint32_t stride = number / TOUCHES_PER_STRIDE;
    if (stride >= MOST_STRIDES || !file_has_lane())
        return 0;
    if (stride >= touch.n_strides) {
        struct touch_stride *mapped =
            file_may_take_stride() ? file_map_stride(file_take_stride()) : NULL;
        if (mapped == NULL)
            return 0;
        mapped->index = stride;
        mapped->magic = SPOOL_TOUCH_MAGIC;
        touch.strides[touch.n_strides++] = mapped;
    }
    touch.n_numbers = number;
    return number;
}

static void answer(uint32_t number, uint32_t value) {
    touch.strides[number / TOUCHES_PER_STRIDE]->touches[number % TOUCHES_PER_STRIDE] = value;
}

/* What is touched of a block as it is now, as in trace.h; *n_pages are its touched pages. */
static uint32_t look_at(const struct touch_block *block, uint64_t *n_pages) {
    struct range whole = pages_whole(block->address, 0, block->size);
    *n_pages = block->zero_pages;
    if (!count_pages(whole, n_pages))
        return 0;
    uint64_t most = block->size / pages_bytes();
    uint64_t n_untouched =
        pages_in(whole) - (*n_pages < pages_in(whole) ? *n_pages : pages_in(whole));
    /* What lies behind the last whole page is as untouched as that page: round it. */
    if (n_untouched > 0)
        n_untouched += 2 * (block->address + block->size - whole.end) >= pages_bytes();
    n_untouched = n_untouched < most ? n_untouched : most;
    return n_untouched < UINT32_MAX ? (uint32_t)n_untouched + 1 : 0;
}

/* ---- table; the lock is held ---- */

static size_t place_of(uintptr_t address) {
    return (size_t)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 47);
}
_Static_assert(TABLE_SLOTS == 1 << (64 - 47), "a place is below it");

static void change_filter(uintptr_t address, int by) {
    uint8_t *count = &touch_filter[touch_hash((const void *)address)];
    if (*count < UINT8_MAX)
        __atomic_store_n(count, (uint8_t)(*count + by), __ATOMIC_RELAXED);
}

/* The place of the address, or the free one where it would go. */
static size_t find_place(uintptr_t address) {
    size_t at = place_of(address);
    while (touch.table[at].address != 0 && touch.table[at].address != address)
        at = (at + 1) % TABLE_SLOTS;
    return at;
}

static bool add_block(const struct touch_block *block) {
    size_t at = find_place(block->address);
    if (touch.table[at].address == 0) {
        if (touch.n_blocks == TABLE_MOST)
            return false;
        touch.n_blocks++;
        change_filter(block->address, 1);
    }
    touch.table[at] = *block;
    return true;
}

/* Takes the block out; number 0 if it is not there. */
static struct touch_block remove_block(uintptr_t address) {
    size_t hole = find_place(address);
    struct touch_block found = touch.table[hole];
    if (found.address == 0)
        return found;
    for (size_t at = (hole + 1) % TABLE_SLOTS; touch.table[at].address != 0;
         at = (at + 1) % TABLE_SLOTS) {
        size_t wanted = place_of(touch.table[at].address);
        if ((at - wanted) % TABLE_SLOTS >= (at - hole) % TABLE_SLOTS) {
            touch.table[hole] = touch.table[at];
            hole = at;
        }
    }
    touch.table[hole].address = 0;
    touch.n_blocks--;
    change_filter(address, -1);
    return found;
}

/* ---- blocks ---- */

/* False in a child whose memory is a copy, too. */
static bool is_measuring(void) {
    return touch.is_on && file_owns_memory();
}

static uint32_t number_block(struct touch_block *block) {
    lock_touch();
    block->number = touch.n_blocks < TABLE_MOST ? take_number() : 0;
    if (block->number != 0)
        add_block(block);
    unlock_touch();
    return block->number;
}

static struct touch_block forget_block(uintptr_t address) {
    lock_touch();
    struct touch_block block = remove_block(address);
    unlock_touch();
    return block;
}

uint32_t touch_begin(const void *address, size_t size) {
    struct touch_block block = {.address = (uintptr_t)address, .size = size};
    int saved_errno = errno;
    uint32_t number = 0;
    if (is_measuring() && has_budget(LOOKING) && clear_pages(pages_whole(block.address, 0, size)))
        number = number_block(&block);
    errno = saved_errno;
    return number;
}

void touch_end(const void *address) {
    uint64_t unused;
    if (!is_measuring())
        return;
    int saved_errno = errno;
    struct touch_block block = forget_block((uintptr_t)address);
    if (block.address != 0)
        answer(block.number, look_at(&block, &unused));
    errno = saved_errno;
}

void touch_before_realloc(struct touch_move *move, const void *address, size_t size) {
    *move = (struct touch_move){.address = (uintptr_t)address};
    if (!is_measuring())
        return;
    int saved_errno = errno;
    if (touch_may_know(address))
        move->old = forget_block(move->address);
    if (move->old.address != 0)
        move->touch = look_at(&move->old, &move->kept_pages);
    if (move->touch != 0 && size < move->old.size) { /* look again at what stays */
        struct touch_block rest = move->old;
        rest.size = size;
        if (look_at(&rest, &move->kept_pages) == 0)
            move->touch = 0;
    }
    if (size >= TRACE_TOUCH_LEAST_BYTES && real.usable_size != NULL)
        move->usable_bytes = real.usable_size((void *)move->address);
    errno = saved_errno;
}

/* Sets what a realloc left of the old block in the new one; false if that is not known. */
static bool inherit(const struct touch_move *move, struct touch_block *block) {
    size_t kept_bytes = move->usable_bytes < block->size ? move->usable_bytes : block->size;
    uint64_t n_pages = 0;
    if (move->usable_bytes == 0)
        return false;
    if (move->touch == 0) /* a small one, of which all is taken for touched */
        return move->usable_bytes < (size_t)2 * TRACE_TOUCH_LEAST_BYTES && move->old.address == 0;
    block->zero_pages = move->old.zero_pages;
    if (block->address == move->address)
        return true;
    struct range kept = pages_whole(block->address, 0, kept_bytes);
    if (!count_pages(kept, &n_pages))
        return false;
    if (n_pages + block->zero_pages <= move->kept_pages) /* they moved, and were not copied */
        return true;
    n_pages = 0;
    if (!clear_zeros(kept) || !count_pages(kept, &n_pages))
        return false;
    block->zero_pages = n_pages < move->kept_pages ? (uint32_t)(move->kept_pages - n_pages) : 0;
    return true;
}

uint32_t touch_after_realloc(const struct touch_move *move, const void *moved, size_t size) {
    struct touch_block block = {.address = (uintptr_t)moved, .size = size};
    int saved_errno = errno;
    uint32_t number = 0;
    if (!is_measuring())
        return 0;
    if (moved == NULL && size != 0) { /* it failed: the old block lives on */
        lock_touch();
        if (move->old.address != 0)
            add_block(&move->old);
        unlock_touch();
        return 0;
    }
    if (move->old.address != 0)
        answer(move->old.number, move->touch);
    if (moved != NULL && size >= TRACE_TOUCH_LEAST_BYTES && has_budget(LOOKING) &&
        inherit(move, &block) &&
        clear_pages(pages_whole(block.address,
                                move->usable_bytes < size ? move->usable_bytes : size, size)))
        number = number_block(&block);
    errno = saved_errno;
    return number;
}

void touch_survey(void) {
    uint64_t unused;
    if (!is_measuring() || is_inside || getpid() != file_process())
        return;
    int saved_errno = errno;
    lock_touch();
    for (size_t i = 0; i < TABLE_SLOTS; i++)
        if (touch.table[i].address != 0)
            answer(touch.table[i].number, look_at(&touch.table[i], &unused));
    unlock_touch();
    errno = saved_errno;
}

__attribute__((destructor)) static void end(void) {
    touch_survey();
}

/* ---- start ---- */

/* With transparent huge pages one touch makes 512 pages resident. */
static void disable_huge_pages(void) {
    char setting[64] = "";
    long fd = syscall(SYS_openat, AT_FDCWD, "/sys/kernel/mm/transparent_hugepage/enabled",
                      O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    syscall(SYS_read, fd, setting, sizeof setting - 1);
    syscall(SYS_close, fd);
    if (strstr(setting, "[always]") != NULL && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0)
        touch.disabled_huge_pages = prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0;
}

void touch_start(void) {
    const size_t table_bytes = TABLE_SLOTS * sizeof *touch.table;
    touch.is_on = false;
    if (touch.table != NULL)
        munmap(touch.table, table_bytes);
    for (uint32_t i = 0; i < touch.n_strides; i++)
        munmap(touch.strides[i], SPOOL_STRIDE_BYTES);
    touch.n_strides = touch.n_numbers = 0;
    touch.n_blocks = 0;
    memset(touch_filter, 0, sizeof touch_filter);
    unlock_touch();
    void *table = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    touch.table = table == MAP_FAILED ? NULL : table;
    if (touch.table == NULL)
        return;
    touch.start_ns = clock_monotonic_ns();
    memset(touch.spent_ns, 0, sizeof touch.spent_ns);
    touch.table[0].number = 0; /* written: the page is there */
    bool are_known = pages_start(touch.table);
    disable_huge_pages();
    touch.is_on = are_known;
}

void touch_stop(void) {
    touch.is_on = false;
    if (touch.disabled_huge_pages)
        prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    touch.disabled_huge_pages = false;
}
