/* large.c - large blocks: one mapping each, found in a hash table, some kept for reuse.
 *
 * A large block has no header; its address leads to its size through an
 * open-addressed table (linear probing, at most half full, deletion by moving
 * back, Knuth vol. 3, 6.4, algorithm R).  The table is a mapping too and doubles.
 *
 * Freed blocks are kept for the next requests, at most large_cache_count of them,
 * and large_cache_bytes or what was in use at the highest point: keeping
 * what was in use then does not make the peak higher.  A request takes the
 * best fit that is at most large_cache_slack percent too large, else the head of a
 * larger one, else the largest, which grows by new pages behind the old ones.
 * Kept blocks are unmapped after purge_delay.
 *
 * The lock is held for looks into the table only, never across a call to the system: what is
 * to be unmapped is collected first, and what is to enter the table is mapped before.
 *
 * Source of the multiplier: 2^64 / golden ratio (Knuth vol. 3, 6.4).
 */
#include "memory/large.h"

#include <string.h>

#include "base/options.h"
#include "memory/guard.h"
#include "system/lock.h"
#include "system/os.h"

enum {
    N_KEPT_MAX = 64,     /* high end of large_cache_count */
    N_FIRST_ENTRIES = 64 /* before the table has to be mapped */
};

struct entry {
    void *start;     /* NULL: free entry */
    size_t bytes;    /* without the guard */
    bool is_guarded; /* with `secure` */
};

struct kept {
    void *start;
    size_t bytes;
    uint64_t freed_ms;
};

/* All state of this module, under its lock. */
static struct {
    struct lock lock;
    struct entry *entries; /* n_entries, a power of two */
    size_t n_entries;
    size_t n_blocks;   /* entries in use */
    size_t n_promised; /* free entries that blocks are about to need, see make_room */
    size_t bytes;      /* of all blocks in use */
    size_t peak;       /* highest `bytes` so far */
    size_t n_kept;
    size_t kept_bytes;
    struct kept kept[N_KEPT_MAX]; /* oldest first */
    struct entry first_entries[N_FIRST_ENTRIES];
} large;

/* --- the table --- */

static size_t home_of(const void *start) {
    uint64_t hash = ((uintptr_t)start >> 12) * 0x9e3779b97f4a7c15u;
    return hash >> (64 - log2_floor(large.n_entries));
}

/* The entry of `start`, or the free entry where it would go. */
static struct entry *find(const void *start) {
    size_t i = home_of(start);
    while (large.entries[i].start != NULL && large.entries[i].start != start)
        i = (i + 1) & (large.n_entries - 1);
    return &large.entries[i];
}

/* Use `entries`, twice as many and all free, from now on.  Returns the old ones, to be
 * unmapped; those in use before the first are no mapping. */
static struct entry *grow_table(struct entry *entries) {
    struct entry *old = large.entries;
    size_t n_old = large.n_entries;
    large.entries = entries;
    large.n_entries = 2 * n_old;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].start != NULL)
            *find(old[i].start) = old[i];
    return old;
}

static bool has_room(void) {
    if (large.entries == NULL) {
        large.entries = large.first_entries;
        large.n_entries = N_FIRST_ENTRIES;
    }
    return 2 * (large.n_blocks + large.n_promised + 1) <= large.n_entries;
}

/* Double the table unless it has n entries no more; false if out of memory.  Called with
 * the lock, which it drops meanwhile. */
static bool make_table(size_t n) {
    lock_release(&large.lock);
    struct entry *unused = os_map(2 * n * sizeof *unused);
    bool is_mapped = unused != NULL;
    size_t n_unused = 2 * n;
    lock_take(&large.lock);
    if (is_mapped && large.n_entries == n) {
        unused = grow_table(unused);
        n_unused = n;
    }
    lock_release(&large.lock);
    if (is_mapped && unused != large.first_entries)
        os_unmap(unused, n_unused * sizeof *unused);
    lock_take(&large.lock);
    return is_mapped;
}

/* Promise the caller, who has the lock, an entry that `insert` will find; false if out of memory.
 */
static bool make_room(void) {
    while (!has_room())
        if (!make_table(large.n_entries))
            return false;
    large.n_promised++;
    return true;
}

/* Enter a block that has been promised an entry. */
static void insert(struct entry block) {
    *find(block.start) = block;
    large.n_promised--;
    large.n_blocks++;
    large.bytes += block.bytes;
    if (large.bytes > large.peak)
        large.peak = large.bytes;
}

/* Close the gap: move back every entry whose way from home leads over it. */
static void erase(struct entry *gap) {
    size_t mask = large.n_entries - 1;
    size_t hole = (size_t)(gap - large.entries);
    large.n_blocks--;
    large.bytes -= gap->bytes;
    for (size_t i = (hole + 1) & mask; large.entries[i].start != NULL; i = (i + 1) & mask) {
        size_t home = home_of(large.entries[i].start);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            large.entries[hole] = large.entries[i];
            hole = i;
        }
    }
    large.entries[hole] = (struct entry){NULL, 0, false};
}

/* --- kept blocks --- */

/* What to unmap once the lock is released. */
struct unneeded {
    size_t n;
    struct entry of[N_KEPT_MAX + 1];
};

static void add_unneeded(struct unneeded *unneeded, void *start, size_t bytes) {
    unneeded->of[unneeded->n++] = (struct entry){start, bytes, false};
}

static void unmap(const struct unneeded *unneeded) {
    for (size_t i = 0; i < unneeded->n; i++)
        os_unmap(unneeded->of[i].start, unneeded->of[i].bytes);
}

static struct kept drop_kept(size_t i) {
    struct kept k = large.kept[i];
    large.n_kept--;
    large.kept_bytes -= k.bytes;
    memmove(&large.kept[i], &large.kept[i + 1], (large.n_kept - i) * sizeof k);
    return k;
}

static void drop_oldest(struct unneeded *unneeded) {
    struct kept oldest = drop_kept(0);
    add_unneeded(unneeded, oldest.start, oldest.bytes);
}

/* The smallest kept block of `bytes` or more; else the largest. n_kept > 0. */
static size_t best_kept(size_t bytes) {
    size_t best = 0;
    for (size_t i = 1; i < large.n_kept; i++) {
        size_t k = large.kept[i].bytes;
        size_t b = large.kept[best].bytes;
        if (b < bytes ? k > b : k >= bytes && k < b)
            best = i;
    }
    return best;
}

/* A kept block for `bytes`, or one that has to grow to that, removed; start is NULL if there is
 * none. */
static struct kept take_kept(size_t bytes) {
    if (large.n_kept == 0)
        return (struct kept){0};
    struct kept *best = &large.kept[best_kept(bytes)];
    size_t most = bytes + bytes / 100 * options.large_cache_slack;
    if (best->bytes <= most)
        return drop_kept((size_t)(best - large.kept));
    struct kept head = {best->start, bytes, best->freed_ms};
    best->start = (char *)best->start + bytes;
    best->bytes -= bytes;
    large.kept_bytes -= bytes;
    return head;
}

/* Drop the oldest kept blocks while there are too many of them. */
static void hold_limits(struct unneeded *unneeded) {
    size_t room = large.peak > large.bytes ? large.peak - large.bytes : 0;
    size_t most = room > options.large_cache_bytes ? room : options.large_cache_bytes;
    while (large.n_kept > options.large_cache_count || large.kept_bytes > most)
        drop_oldest(unneeded);
}

/* Keep a block for later, or not. */
static void keep(void *start, size_t bytes, uint64_t now_ms, struct unneeded *unneeded) {
    if (options.large_cache_count == 0 || options.large_cache_bytes == 0 ||
        options.purge_delay == 0) {
        add_unneeded(unneeded, start, bytes + guard_bytes());
        return;
    }
    if (large.n_kept == N_KEPT_MAX)
        drop_oldest(unneeded);
    large.kept[large.n_kept++] = (struct kept){start, bytes, now_ms};
    large.kept_bytes += bytes;
    hold_limits(unneeded);
}

/* --- blocks --- */

static struct entry map_block(size_t bytes, size_t alignment) {
    size_t all = bytes + guard_bytes();
    char *start = alignment <= os_page_bytes() ? os_map(all) : os_map_aligned(all, alignment);
    bool is_guarded = start != NULL && options.secure && guard_last_page(start + all);
    bool is_advised = options.huge_pages == HUGE_ALWAYS || options.huge_pages == HUGE_NEVER;
    if (start != NULL && is_advised && bytes >= HUGE_BYTES)
        os_advise_huge(start, bytes, options.huge_pages == HUGE_ALWAYS);
    return (struct entry){start, bytes, is_guarded};
}

/* Memory that was a block before; start is NULL if there is none. */
static struct entry reuse(size_t bytes) {
    lock_take(&large.lock);
    struct kept k = take_kept(bytes);
    lock_release(&large.lock);
    if (k.start == NULL || k.bytes >= bytes)
        return (struct entry){k.start, k.bytes, false};
    void *grown = os_remap(k.start, k.bytes, bytes);
    if (grown == NULL)
        os_unmap(k.start, k.bytes);
    return (struct entry){grown, bytes, false};
}

/* Enter a new block into the table; false if out of memory. */
static bool enter(struct entry block) {
    struct unneeded unneeded = {.n = 0};
    lock_take(&large.lock);
    bool has_entry = make_room();
    if (has_entry) {
        insert(block);
        hold_limits(&unneeded);
    }
    lock_release(&large.lock);
    unmap(&unneeded);
    return has_entry;
}

void *large_allocate(size_t bytes, size_t alignment, bool *is_zero) {
    if (bytes > PTRDIFF_MAX - os_page_bytes() || alignment > PTRDIFF_MAX / 2)
        return NULL;
    bytes = round_up(bytes, os_page_bytes());
    struct entry block = {NULL, 0, false};
    if (alignment <= os_page_bytes())
        block = reuse(bytes);
    *is_zero = block.start == NULL;
    if (block.start == NULL)
        block = map_block(bytes, alignment);
    if (block.start == NULL || enter(block))
        return block.start;
    os_unmap(block.start, block.bytes + guard_bytes());
    if (block.is_guarded)
        guard_unmapped();
    return NULL;
}

bool large_free(void *start) {
    struct unneeded unneeded = {.n = 0};
    uint64_t now_ms = os_clock_ms();
    lock_take(&large.lock);
    struct entry *e = large.entries != NULL ? find(start) : NULL;
    bool found = e != NULL && e->start != NULL;
    if (found) {
        size_t bytes = e->bytes;
        if (e->is_guarded) /* it is not kept */
            guard_unmapped();
        erase(e);
        keep(start, bytes, now_ms, &unneeded);
    }
    lock_release(&large.lock);
    unmap(&unneeded);
    return found;
}

size_t large_bytes(const void *start) {
    lock_take(&large.lock);
    size_t bytes = large.entries != NULL ? find(start)->bytes : 0;
    lock_release(&large.lock);
    return bytes;
}

/* The block leaves the table meanwhile, since its addresses may be another's before the system
 * call has returned; its entry is promised to what it becomes. */
void *large_resize(void *start, size_t bytes) {
    struct unneeded unneeded = {.n = 0};
    if (bytes > PTRDIFF_MAX - os_page_bytes())
        return NULL;
    bytes = round_up(bytes, os_page_bytes());
    size_t old_bytes = large_bytes(start);
    if (old_bytes == bytes)
        return start;
    if (options.secure) /* two mappings, block and guard, cannot be resized as one */
        return NULL;
    lock_take(&large.lock);
    erase(find(start));
    large.n_promised++;
    lock_release(&large.lock);
    void *moved = os_remap(start, old_bytes, bytes);
    lock_take(&large.lock);
    insert(moved != NULL ? (struct entry){moved, bytes, false}
                         : (struct entry){start, old_bytes, false});
    hold_limits(&unneeded);
    lock_release(&large.lock);
    unmap(&unneeded);
    return moved;
}

void *large_move_in(void *start, size_t old_bytes, size_t bytes) {
    struct unneeded unneeded = {.n = 0};
    if (bytes > PTRDIFF_MAX - os_page_bytes())
        return NULL;
    bytes = round_up(bytes, os_page_bytes());
    lock_take(&large.lock);
    bool has_entry = make_room();
    lock_release(&large.lock);
    void *moved = has_entry ? os_move_out(start, old_bytes, bytes) : NULL;
    lock_take(&large.lock);
    if (moved != NULL)
        insert((struct entry){moved, bytes, false});
    else
        large.n_promised -= has_entry;
    hold_limits(&unneeded);
    lock_release(&large.lock);
    unmap(&unneeded);
    return moved;
}

/* The lock is held already. */
static bool drop_old(uint64_t now_ms, struct unneeded *unneeded) {
    while (large.n_kept > 0 && now_ms >= large.kept[0].freed_ms + options.purge_delay)
        drop_oldest(unneeded);
    return large.n_kept > 0;
}

static bool purge(uint64_t now_ms, bool waits) {
    struct unneeded unneeded = {.n = 0};
    if (!lock_take_or_try(&large.lock, waits))
        return true;
    bool is_left = drop_old(now_ms, &unneeded);
    lock_release(&large.lock);
    unmap(&unneeded);
    return is_left;
}

bool large_purge(uint64_t now_ms) {
    return purge(now_ms, false);
}

void large_purge_all(void) {
    purge(UINT64_MAX, true);
}

void large_count(size_t *n_blocks, size_t *n_bytes) {
    lock_take(&large.lock);
    *n_blocks = large.n_blocks;
    *n_bytes = large.bytes;
    lock_release(&large.lock);
}

bool large_is_valid(void) {
    size_t n = 0;
    size_t bytes = 0;
    lock_take(&large.lock);
    bool valid = large.n_kept <= options.large_cache_count && large.bytes <= large.peak &&
                 (large.kept_bytes <= options.large_cache_bytes ||
                  large.bytes + large.kept_bytes <= large.peak);
    for (size_t i = 0; i < large.n_entries; i++) {
        const struct entry *e = &large.entries[i];
        n += e->start != NULL;
        bytes += e->bytes;
        valid = valid && (e->start == NULL || find(e->start) == e);
    }
    valid = valid && n == large.n_blocks && bytes == large.bytes;
    lock_release(&large.lock);
    return valid;
}

void large_lock(void) {
    lock_take(&large.lock);
}

void large_unlock(void) {
    lock_release(&large.lock);
}
