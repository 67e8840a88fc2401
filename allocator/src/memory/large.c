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
    void *start; /* NULL: free entry */
    size_t bytes;
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
    size_t n_blocks; /* entries in use */
    size_t bytes;    /* of all blocks in use */
    size_t peak;     /* highest `bytes` so far */
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

static bool grow_table(void) {
    struct entry *old = large.entries;
    size_t n_old = large.n_entries;
    struct entry *entries = os_map(2 * n_old * sizeof *entries);
    if (entries == NULL)
        return false;
    large.entries = entries;
    large.n_entries = 2 * n_old;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].start != NULL)
            *find(old[i].start) = old[i];
    if (old != large.first_entries)
        os_unmap(old, n_old * sizeof *old);
    return true;
}

/* Whether the table takes one more entry, now that it has been made so. */
static bool has_room(void) {
    if (large.entries == NULL) {
        large.entries = large.first_entries;
        large.n_entries = N_FIRST_ENTRIES;
    }
    return 2 * (large.n_blocks + 1) <= large.n_entries || grow_table();
}

static bool insert(void *start, size_t bytes) {
    if (!has_room())
        return false;
    *find(start) = (struct entry){start, bytes};
    large.n_blocks++;
    large.bytes += bytes;
    if (large.bytes > large.peak)
        large.peak = large.bytes;
    return true;
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
    large.entries[hole] = (struct entry){NULL, 0};
}

/* Unmap a block, with its guard page if blocks have one. */
static void unmap_block(void *start, size_t bytes) {
    os_unmap(start, bytes + guard_bytes());
}

/* --- kept blocks --- */

static struct kept drop_kept(size_t i) {
    struct kept k = large.kept[i];
    large.n_kept--;
    large.kept_bytes -= k.bytes;
    memmove(&large.kept[i], &large.kept[i + 1], (large.n_kept - i) * sizeof k);
    return k;
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

/* A kept block made to fit `bytes`, removed; start is NULL if there is none. */
static struct kept take_kept(size_t bytes) {
    if (large.n_kept == 0)
        return (struct kept){0};
    struct kept *best = &large.kept[best_kept(bytes)];
    size_t most = bytes + bytes / 100 * options.large_cache_slack;
    if (best->bytes > most) {
        struct kept head = {best->start, bytes, best->freed_ms};
        best->start = (char *)best->start + bytes;
        best->bytes -= bytes;
        large.kept_bytes -= bytes;
        return head;
    }
    struct kept k = drop_kept((size_t)(best - large.kept));
    if (k.bytes >= bytes)
        return k;
    void *grown = os_remap(k.start, k.bytes, bytes);
    if (grown == NULL)
        os_unmap(k.start, k.bytes);
    return (struct kept){grown, bytes, 0};
}

/* Unmap the oldest kept blocks while there are too many of them. */
static void hold_limits(void) {
    size_t room = large.peak > large.bytes ? large.peak - large.bytes : 0;
    size_t most = room > options.large_cache_bytes ? room : options.large_cache_bytes;
    while (large.n_kept > options.large_cache_count || large.kept_bytes > most) {
        struct kept oldest = drop_kept(0);
        os_unmap(oldest.start, oldest.bytes);
    }
}

/* Keep a block for later, or unmap it. */
static void keep(void *start, size_t bytes) {
    if (options.large_cache_count == 0 || options.large_cache_bytes == 0 ||
        options.purge_delay == 0) {
        unmap_block(start, bytes);
        return;
    }
    if (large.n_kept == N_KEPT_MAX) {
        struct kept oldest = drop_kept(0);
        os_unmap(oldest.start, oldest.bytes);
    }
    large.kept[large.n_kept++] = (struct kept){start, bytes, os_clock_ms()};
    large.kept_bytes += bytes;
    hold_limits();
}

/* --- blocks --- */

static void *map_block(size_t bytes, size_t alignment) {
    size_t all = bytes + guard_bytes();
    char *start = alignment <= os_page_bytes() ? os_map(all) : os_map_aligned(all, alignment);
    if (start != NULL && options.secure)
        guard_last_page(start + all);
    bool is_advised = options.huge_pages == HUGE_ALWAYS || options.huge_pages == HUGE_NEVER;
    if (start != NULL && is_advised && bytes >= HUGE_BYTES)
        os_advise_huge(start, bytes, options.huge_pages == HUGE_ALWAYS);
    return start;
}

static void *allocate_locked(size_t bytes, size_t alignment, bool *is_zero) {
    struct kept k = {0};
    if (alignment <= os_page_bytes())
        k = take_kept(bytes);
    *is_zero = k.start == NULL;
    if (k.start == NULL)
        k = (struct kept){.start = map_block(bytes, alignment), .bytes = bytes};
    if (k.start != NULL && !insert(k.start, k.bytes)) {
        unmap_block(k.start, k.bytes);
        return NULL;
    }
    hold_limits();
    return k.start;
}

void *large_allocate(size_t bytes, size_t alignment, bool *is_zero) {
    if (bytes > PTRDIFF_MAX - os_page_bytes() || alignment > PTRDIFF_MAX / 2)
        return NULL;
    lock_take(&large.lock);
    void *start = allocate_locked(round_up(bytes, os_page_bytes()), alignment, is_zero);
    lock_release(&large.lock);
    return start;
}

bool large_free(void *start) {
    lock_take(&large.lock);
    struct entry *e = large.entries != NULL ? find(start) : NULL;
    bool found = e != NULL && e->start != NULL;
    if (found) {
        size_t bytes = e->bytes;
        erase(e);
        keep(start, bytes);
    }
    lock_release(&large.lock);
    return found;
}

size_t large_bytes(const void *start) {
    lock_take(&large.lock);
    size_t bytes = large.entries != NULL ? find(start)->bytes : 0;
    lock_release(&large.lock);
    return bytes;
}

void *large_resize(void *start, size_t bytes) {
    if (bytes > PTRDIFF_MAX - os_page_bytes())
        return NULL;
    bytes = round_up(bytes, os_page_bytes());
    lock_take(&large.lock);
    struct entry old = *find(start);
    void *moved = start;
    if (old.bytes != bytes) /* two mappings, block and guard, cannot be resized as one */
        moved = options.secure ? NULL : os_remap(start, old.bytes, bytes);
    if (moved != NULL && old.bytes != bytes) {
        erase(find(start));
        insert(moved, bytes); /* fits: one was just erased */
        hold_limits();
    }
    lock_release(&large.lock);
    return moved;
}

void *large_move_in(void *start, size_t old_bytes, size_t bytes) {
    if (bytes > PTRDIFF_MAX - os_page_bytes())
        return NULL;
    bytes = round_up(bytes, os_page_bytes());
    void *moved = NULL;
    lock_take(&large.lock);
    if (has_room())
        moved = os_move_out(start, old_bytes, bytes);
    if (moved != NULL) {
        insert(moved, bytes);
        hold_limits();
    }
    lock_release(&large.lock);
    return moved;
}

bool large_purge(uint64_t now_ms) {
    lock_take(&large.lock);
    while (large.n_kept > 0 && now_ms >= large.kept[0].freed_ms + options.purge_delay) {
        struct kept k = drop_kept(0);
        os_unmap(k.start, k.bytes);
    }
    bool left = large.n_kept > 0;
    lock_release(&large.lock);
    return left;
}

void large_purge_all(void) {
    large_purge(UINT64_MAX);
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
