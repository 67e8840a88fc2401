/* large.c - large blocks: one mapping each, found in a hash table, some kept for reuse.
 *
 * A large block has no header; its address leads to its size through an
 * open-addressed table (linear probing, at most half full, deletion by moving
 * back, Knuth vol. 3, 6.4, algorithm R).  The table is a mapping too and doubles.
 *
 * Freed blocks are kept for the next requests, neighbours as one, at most large_cache_count of
 * them, and large_cache_bytes or what was in use at the highest point: keeping
 * what was in use then does not make the peak higher.  A request is cut out of the best fit, at
 * the alignment it wants; what is left stays kept, if it is more than large_cache_slack percent.
 * If none fits, the largest grows by new pages behind the old ones.  A block that grows takes the
 * head of the largest, and grows on into what is kept behind it: no call to the system, no copy.
 * Where something else is behind it, it is copied into a kept block that has room: pages that are
 * there cost less than new ones, and what is kept would soon be too much beside them.
 * Kept blocks lie in an array by their addresses, searched by halves for neighbours; they are
 * unmapped one to two times purge_delay later.
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
#include "memory/retired.h"
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
    uint64_t seen_ms; /* by the first look of the purger; 0: not yet */
    uint64_t age;     /* less than of blocks that were kept later */
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
    size_t most;       /* large_cache_percent above that */
    size_t n_kept;
    size_t kept_bytes;
    uint64_t last_age;
    struct kept kept[N_KEPT_MAX + 2]; /* by their addresses; no two of them neighbours */
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

static void add_bytes(size_t bytes) {
    large.bytes += bytes;
    if (likely(large.bytes <= large.peak))
        return;
    large.peak = large.bytes;
    large.most = large.peak + large.peak / 100 * options.large_cache_percent;
}

/* Enter a block that has been promised an entry. */
static void insert(struct entry block) {
    *find(block.start) = block;
    large.n_promised--;
    large.n_blocks++;
    add_bytes(block.bytes);
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
    struct entry of[N_KEPT_MAX + 2];
};

static void add_unneeded(struct unneeded *unneeded, void *start, size_t bytes) {
    unneeded->of[unneeded->n++] = (struct entry){start, bytes, false};
}

static void unmap(const struct unneeded *unneeded) {
    for (size_t i = 0; i < unneeded->n; i++)
        if (options.secure)
            retired_add(unneeded->of[i].start, unneeded->of[i].bytes);
        else
            os_unmap(unneeded->of[i].start, unneeded->of[i].bytes);
}

static void close_kept_gap(size_t i) {
    large.n_kept--;
    memmove(&large.kept[i], &large.kept[i + 1], (large.n_kept - i) * sizeof large.kept[i]);
}

static void open_kept_gap(size_t i) {
    memmove(&large.kept[i + 1], &large.kept[i], (large.n_kept - i) * sizeof large.kept[i]);
    large.n_kept++;
}

static struct kept drop_kept(size_t i) {
    struct kept k = large.kept[i];
    large.kept_bytes -= k.bytes;
    close_kept_gap(i);
    return k;
}

static void drop_unneeded(size_t i, struct unneeded *unneeded) {
    struct kept k = drop_kept(i);
    add_unneeded(unneeded, k.start, k.bytes);
}

static NOINLINE void drop_oldest(struct unneeded *unneeded) {
    size_t oldest = 0;
    for (size_t i = 1; i < large.n_kept; i++)
        oldest = large.kept[i].age < large.kept[oldest].age ? i : oldest;
    drop_unneeded(oldest, unneeded);
}

/* The first kept block at or behind `start`, n_kept if there is none; without a branch on
 * addresses. */
static size_t kept_from(const char *start) {
    const struct kept *first = large.kept;
    size_t n = large.n_kept;
    if (n == 0)
        return 0;
    while (n > 1) {
        size_t half = n / 2;
        first = (char *)first[half - 1].start < start ? first + half : first;
        n -= half;
    }
    return (size_t)(first - large.kept) + ((char *)first->start < start);
}

/* Bytes of a kept block before the first multiple of `alignment`. */
static size_t bytes_before(const struct kept *k, size_t alignment) {
    return (size_t)(-(uintptr_t)k->start & (alignment - 1));
}

static bool fits(const struct kept *k, size_t bytes, size_t alignment) {
    size_t before = bytes_before(k, alignment);
    return k->bytes >= bytes && k->bytes - bytes >= before;
}

/* The smallest kept block that holds `bytes` at a multiple of `alignment`, or, for a block that is
 * to grow, the largest; n_kept if there is none. */
static size_t best_aligned(size_t bytes, size_t alignment, bool grows) {
    size_t best = large.n_kept;
    for (size_t i = 0; i < large.n_kept; i++) {
        const struct kept *k = &large.kept[i];
        bool is_better = best == large.n_kept || (k->bytes < large.kept[best].bytes) != grows;
        if (is_better && fits(k, bytes, alignment))
            best = i;
    }
    return best;
}

/* The same for any page, without a branch that depends on lengths, which cannot be predicted. */
static size_t best_kept(size_t bytes, size_t alignment, bool grows) {
    if (unlikely(alignment > os_page_bytes() || grows))
        return best_aligned(bytes, alignment, grows);
    size_t best = large.n_kept;
    size_t least = SIZE_MAX / 2; /* bytes left over; what is too short has more */
    for (size_t i = 0; i < large.n_kept; i++) {
        size_t over = large.kept[i].bytes - bytes;
        best = over < least ? i : best;
        least = over < least ? over : least;
    }
    return best;
}

/* Cut `bytes` at a multiple of `alignment` out of a kept block, which has them; what is before and
 * behind stays.  What is behind and too little to be of use goes along, unless the block is to
 * grow into it. */
static struct kept cut_kept(size_t i, size_t bytes, size_t alignment, bool grows) {
    struct kept *k = &large.kept[i];
    size_t before = bytes_before(k, alignment);
    size_t behind = k->bytes - before - bytes;
    if (!grows && behind <= bytes / 100 * options.large_cache_slack) {
        bytes += behind;
        behind = 0;
    }
    struct kept cut = {(char *)k->start + before, bytes, k->seen_ms, k->age};
    large.kept_bytes -= bytes;
    if (before == 0 && behind == 0) {
        large.kept_bytes += bytes;
        return drop_kept(i);
    }
    if (before > 0 && behind > 0) {
        open_kept_gap(i);
        k[1] = (struct kept){(char *)cut.start + bytes, behind, cut.seen_ms, cut.age};
        k->bytes = before;
    } else if (behind > 0) {
        k->start = (char *)cut.start + bytes;
        k->bytes = behind;
    } else {
        k->bytes = before;
    }
    return cut;
}

/* The kept block that begins at `start`; n_kept if none does. */
static size_t kept_at(const char *start) {
    size_t i = kept_from(start);
    return i < large.n_kept && large.kept[i].start == start ? i : large.n_kept;
}

/* Most bytes to keep: what, with the blocks in use, is large_cache_percent above the most that
 * ever was in use, and large_cache_bytes in any case. */
static size_t most_kept(void) {
    size_t room = large.most > large.bytes ? large.most - large.bytes : 0;
    return room > options.large_cache_bytes ? room : options.large_cache_bytes;
}

/* Drop the oldest kept blocks while there are too many of them. */
ALWAYS_INLINE void hold_limits(struct unneeded *unneeded) {
    while (unlikely(large.n_kept > options.large_cache_count || large.kept_bytes > most_kept()))
        drop_oldest(unneeded);
}

/* A block and a kept neighbour as one, which is as old as the larger of the two: what comes and
 * goes beside memory that nobody uses does not keep that. */
static struct kept join(struct kept block, struct kept neighbour) {
    struct kept whole = neighbour.bytes > block.bytes ? neighbour : block;
    whole.start = neighbour.start < block.start ? neighbour.start : block.start;
    whole.bytes = block.bytes + neighbour.bytes;
    return whole;
}

/* Keep a block for later, or not.  It becomes one with its kept neighbours: their addresses follow
 * each other, and the system does not care how they were mapped. */
static void keep(char *start, size_t bytes, struct unneeded *unneeded) {
    if (options.large_cache_count == 0 || options.large_cache_bytes == 0 ||
        options.purge_delay == 0) {
        add_unneeded(unneeded, start, bytes + guard_bytes());
        return;
    }
    large.kept_bytes += bytes;
    struct kept block = {start, bytes, 0, ++large.last_age};
    size_t i = kept_from(start);
    struct kept *k = &large.kept[i];
    bool joins_behind = i < large.n_kept && k->start == start + bytes;
    bool joins_before = i > 0 && (char *)k[-1].start + k[-1].bytes == start;
    if (joins_behind)
        block = join(block, *k);
    if (joins_before)
        block = join(block, *--k);
    if (joins_before && joins_behind)
        close_kept_gap(i);
    else if (!joins_before && !joins_behind)
        open_kept_gap(i);
    *k = block;
    hold_limits(unneeded);
}

/* --- blocks --- */

/* Whether a block begins at `start`, or memory that was one. */
static bool is_known(const char *start) {
    lock_take(&large.lock);
    bool is_block = large.entries != NULL && find(start)->start != NULL;
    bool is_there = is_block || kept_at(start) < large.n_kept;
    lock_release(&large.lock);
    return is_there;
}

/* New memory with another block right behind it, with which it may become one, or with nothing
 * there: the system puts mappings next to each other, and what is written behind a block is not to
 * end up in a library. */
static char *map_apart(size_t bytes) {
    size_t page = os_page_bytes();
    char *start = os_map(bytes + page);
    if (start == NULL)
        return NULL;
    bool is_followed = is_known(start + bytes + page);
    os_unmap(is_followed ? start : start + bytes, page);
    return is_followed ? start + page : start;
}

static char *map_anywhere(size_t bytes) {
    return options.secure ? os_map(bytes) : map_apart(bytes);
}

static struct entry map_block(size_t bytes, size_t alignment) {
    size_t all = bytes + guard_bytes();
    char *start = alignment <= os_page_bytes() ? map_anywhere(all) : os_map_aligned(all, alignment);
    bool is_guarded = start != NULL && options.secure && guard_last_page(start + all);
    bool is_advised = options.huge_pages == HUGE_ALWAYS || options.huge_pages == HUGE_NEVER;
    if (start != NULL && is_advised && bytes >= HUGE_BYTES)
        os_advise_huge(start, bytes, options.huge_pages == HUGE_ALWAYS);
    return (struct entry){start, bytes, is_guarded};
}

/* Enter a part of a kept block, or all of it, into the table, where an entry is promised to it. */
static void *enter_kept(size_t i, size_t bytes, size_t alignment, bool grows) {
    struct kept k = cut_kept(i, bytes, alignment, grows);
    insert((struct entry){k.start, k.bytes, false});
    return k.start;
}

/* A kept block, or a part of one, in the table; NULL if none fits, or there is no entry at hand. */
static void *take_kept(size_t bytes, size_t alignment, bool grows) {
    void *start = NULL;
    struct unneeded unneeded;
    unneeded.n = 0;
    lock_take(&large.lock);
    size_t best = has_room() ? best_kept(bytes, alignment, grows) : large.n_kept;
    if (best < large.n_kept) {
        large.n_promised++;
        start = enter_kept(best, bytes, alignment, grows);
        hold_limits(&unneeded); /* of one kept block, two may be left */
    }
    lock_release(&large.lock);
    unmap(&unneeded);
    return start;
}

/* Memory that was a block before; start is NULL if there is none.  The largest kept block grows if
 * that saves more page faults than it costs to move it. */
static struct entry reuse(size_t bytes, size_t alignment, bool grows) {
    struct kept k = {0};
    struct unneeded unneeded;
    unneeded.n = 0;
    lock_take(&large.lock);
    size_t best = best_kept(bytes, alignment, grows);
    if (best < large.n_kept) {
        k = cut_kept(best, bytes, alignment, grows);
    } else if (alignment <= os_page_bytes()) {
        best = best_kept(bytes / 2, alignment, true);
        if (best < large.n_kept)
            k = drop_kept(best);
    }
    hold_limits(&unneeded); /* as in take_kept */
    lock_release(&large.lock);
    unmap(&unneeded);
    if (k.start == NULL || k.bytes >= bytes)
        return (struct entry){k.start, k.bytes, false};
    void *grown = os_remap(k.start, k.bytes, bytes);
    if (grown == NULL)
        os_unmap(k.start, k.bytes);
    return (struct entry){grown, bytes, false};
}

/* Enter a new block into the table; false if out of memory. */
static bool enter(struct entry block) {
    struct unneeded unneeded;
    unneeded.n = 0;
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

static void *allocate(size_t bytes, size_t alignment, bool grows, bool *is_zero) {
    if (bytes > PTRDIFF_MAX - os_page_bytes() || alignment > PTRDIFF_MAX / 2)
        return NULL;
    bytes = round_up(bytes, os_page_bytes());
    void *kept = take_kept(bytes, alignment, grows);
    *is_zero = false;
    if (likely(kept != NULL))
        return kept;
    struct entry block = reuse(bytes, alignment, grows);
    *is_zero = block.start == NULL;
    if (block.start == NULL)
        block = map_block(bytes, alignment);
    if (block.start == NULL) { /* what is kept may be what a limit has no room beside */
        large_purge_all();
        block = map_block(bytes, alignment);
    }
    if (block.start == NULL || enter(block))
        return block.start;
    os_unmap(block.start, block.bytes + guard_bytes());
    if (block.is_guarded)
        guard_unmapped();
    return NULL;
}

void *large_allocate(size_t bytes, size_t alignment, bool *is_zero) {
    return allocate(bytes, alignment, false, is_zero);
}

void *large_allocate_to_grow(size_t bytes) {
    bool is_zero;
    return allocate(bytes, BLOCK_ALIGNMENT, true, &is_zero);
}

bool large_free(void *start) {
    struct unneeded unneeded;
    unneeded.n = 0;
    lock_take(&large.lock);
    struct entry *e = large.entries != NULL ? find(start) : NULL;
    bool found = e != NULL && e->start != NULL;
    if (found) {
        size_t bytes = e->bytes;
        if (e->is_guarded) /* it is not kept */
            guard_unmapped();
        erase(e);
        keep(start, bytes, &unneeded);
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

/* Let a block end at another place without moving it: into the kept memory behind it, or leaving
 * some there.  False if it cannot be. */
static bool resize_in_place(struct entry *e, size_t bytes, struct unneeded *unneeded) {
    char *end = (char *)e->start + e->bytes;
    if (bytes < e->bytes) {
        large.bytes -= e->bytes - bytes;
        keep((char *)e->start + bytes, e->bytes - bytes, unneeded);
    } else {
        size_t more = bytes - e->bytes;
        size_t behind = kept_at(end);
        if (behind == large.n_kept || large.kept[behind].bytes < more)
            return false;
        cut_kept(behind, more, 1, true);
        add_bytes(more);
    }
    e->bytes = bytes;
    return true;
}

/* The block leaves the table meanwhile, since its addresses may be another's before the system
 * call has returned; its entry is promised to what it becomes. */
static void *remap(void *start, size_t old_bytes, size_t bytes) {
    struct unneeded unneeded;
    unneeded.n = 0;
    void *moved = os_remap(start, old_bytes, bytes);
    lock_take(&large.lock);
    insert(moved != NULL ? (struct entry){moved, bytes, false}
                         : (struct entry){start, old_bytes, false});
    hold_limits(&unneeded);
    lock_release(&large.lock);
    unmap(&unneeded);
    return moved;
}

/* A kept block for one that grows, in the entry it is promised; NULL, and no change, if none has
 * room for all of it. */
static void *take_to_grow(size_t bytes) {
    size_t best = best_kept(bytes, 1, true);
    return best < large.n_kept ? enter_kept(best, bytes, 1, true) : NULL;
}

/* Copy a block that has left the table to where it grows on, and keep what it was. */
static void *move_to(void *grown, void *start, size_t old_bytes) {
    struct unneeded unneeded;
    unneeded.n = 0;
    memcpy(grown, start, old_bytes);
    lock_take(&large.lock);
    keep(start, old_bytes, &unneeded);
    lock_release(&large.lock);
    unmap(&unneeded);
    return grown;
}

void *large_resize(void *start, size_t bytes) {
    struct unneeded unneeded;
    unneeded.n = 0;
    if (options.secure || bytes > PTRDIFF_MAX - os_page_bytes())
        return NULL; /* two mappings, block and guard, cannot be resized as one */
    bytes = round_up(bytes, os_page_bytes());
    lock_take(&large.lock);
    struct entry *e = find(start);
    size_t old_bytes = e->bytes;
    bool stays = old_bytes == bytes || resize_in_place(e, bytes, &unneeded);
    void *grown = NULL;
    if (!stays) {
        erase(e);
        large.n_promised++;
        grown = take_to_grow(bytes);
    }
    lock_release(&large.lock);
    unmap(&unneeded);
    if (stays)
        return start;
    return grown != NULL ? move_to(grown, start, old_bytes) : remap(start, old_bytes, bytes);
}

void *large_move_in(void *start, size_t old_bytes, size_t bytes) {
    struct unneeded unneeded;
    unneeded.n = 0;
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
static void drop_old(uint64_t now_ms, struct unneeded *unneeded) {
    for (size_t i = large.n_kept; i-- > 0;) {
        struct kept *k = &large.kept[i];
        if (k->seen_ms == 0)
            k->seen_ms = now_ms;
        else if (now_ms >= k->seen_ms + options.purge_delay)
            drop_unneeded(i, unneeded);
    }
}

bool large_purge(uint64_t now_ms) {
    struct unneeded unneeded;
    unneeded.n = 0;
    if (!lock_try(&large.lock))
        return true;
    drop_old(now_ms, &unneeded);
    bool is_left = large.n_kept > 0;
    lock_release(&large.lock);
    unmap(&unneeded);
    return is_left;
}

void large_purge_all(void) {
    struct unneeded unneeded;
    unneeded.n = 0;
    lock_take(&large.lock);
    while (large.n_kept > 0)
        drop_unneeded(large.n_kept - 1, &unneeded);
    lock_release(&large.lock);
    unmap(&unneeded);
    retired_give_back();
}

void large_count(size_t *n_blocks, size_t *n_bytes) {
    lock_take(&large.lock);
    *n_blocks = large.n_blocks;
    *n_bytes = large.bytes;
    lock_release(&large.lock);
}

static bool kept_is_valid(void) {
    size_t bytes = 0;
    for (size_t i = 0; i < large.n_kept; i++) {
        const struct kept *k = &large.kept[i];
        bytes += k->bytes;
        if (k->bytes == 0 || k->bytes % os_page_bytes() != 0 ||
            (i > 0 && (char *)k[-1].start + k[-1].bytes >= (char *)k->start))
            return false;
    }
    return bytes == large.kept_bytes;
}

bool large_is_valid(void) {
    size_t n = 0;
    size_t bytes = 0;
    lock_take(&large.lock);
    bool valid = large.n_kept <= options.large_cache_count && large.bytes <= large.peak &&
                 kept_is_valid() && large.kept_bytes <= most_kept();
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
