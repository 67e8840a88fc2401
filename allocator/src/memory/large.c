/* large.c - large blocks: one mapping each, found in a hash table, some kept for reuse.
 *
 * A large block has no header; its address leads to its description (large_table.h).
 *
 * Freed blocks are kept for the next requests, neighbours as one, at most large_cache_count of
 * them, and large_cache_bytes or what was in use at the highest point: keeping
 * what was in use then does not make the peak higher.  A request is cut out of the best fit, at
 * the alignment it wants; what is left stays kept, if it is more than large_cache_slack percent.
 * If none fits, the largest grows by new pages behind the old ones.  A block that grows takes the
 * head of the largest, and grows on into what is kept behind it: no call to the system, no copy.
 * Where something else is behind it, it is copied into a kept block that has room: pages that are
 * there cost less than new ones, and what is kept would soon be too much beside them.
 * What is kept is unmapped one to two times purge_delay later.
 *
 * The lock is held for looks into the table only, never across a call that maps or unmaps: what is
 * to be unmapped is collected first, and what is to enter the table is mapped before.
 */
#include "memory/large.h"

#include <string.h>

#include "base/options.h"
#include "memory/guard.h"
#include "memory/large_kept.h"
#include "memory/large_table.h"
#include "memory/retired.h"
#include "system/biased_lock.h"
#include "system/os.h"

/* All state of this module, under its lock. */
static struct {
    struct biased_lock lock;
    size_t n_blocks; /* in use */
    size_t bytes;    /* of all of them */
    size_t peak;     /* highest `bytes` so far */
    size_t most;     /* large_cache_percent above that */
    uint64_t last_age;
    struct large_kept kept;
    struct large_table table;
} large;

/* --- descriptions --- */

/* Let the table grow, without the lock meanwhile; false if out of memory. */
static NOINLINE bool add_descriptions(void) {
    struct large_table *t = &large.table;
    size_t n = t->n_all;
    size_t bytes = large_table_growth(t);
    biased_lock_release(&large.lock);
    void *memory = os_map(bytes);
    biased_lock_take(&large.lock);
    if (memory == NULL)
        return large_has_room(t);
    if (t->n_all == n) {
        large_table_grow(t, memory);
        return true;
    }
    biased_lock_release(&large.lock); /* another thread was faster */
    os_unmap(memory, bytes);
    biased_lock_take(&large.lock);
    return true;
}

static NOINLINE bool begin_or_add(void) {
    if (large.table.n_all > 0)
        return add_descriptions();
    large_table_begin(&large.table);
    return true;
}

/* Have descriptions at hand for one operation, of the caller, who has the lock; false if out of
 * memory. */
static bool make_room(void) {
    while (unlikely(!large_has_room(&large.table)))
        if (!begin_or_add())
            return false;
    return true;
}

static void add_bytes(size_t bytes) {
    large.bytes += bytes;
    if (likely(large.bytes <= large.peak))
        return;
    large.peak = large.bytes;
    large.most = large.peak + large.peak / 100 * options.large_cache_percent;
}

static void count_in(const struct large_block *b) {
    large.n_blocks++;
    add_bytes(b->bytes);
}

static void count_out(const struct large_block *b) {
    large.n_blocks--;
    large.bytes -= b->bytes;
}

/* --- kept blocks --- */

/* What to unmap once the lock is released. */
struct unneeded {
    size_t n;
    struct {
        void *start;
        size_t bytes;
    } of[N_PLACES];
};

static void add_unneeded(struct unneeded *unneeded, struct large_block *b, size_t bytes) {
    unneeded->of[unneeded->n].start = b->start;
    unneeded->of[unneeded->n++].bytes = bytes;
    large_depart(&large.table, b);
    large_forget(&large.table, b);
}

static void unmap(const struct unneeded *unneeded) {
    for (size_t i = 0; i < unneeded->n; i++)
        if (options.secure)
            retired_add(unneeded->of[i].start, unneeded->of[i].bytes);
        else
            os_unmap(unneeded->of[i].start, unneeded->of[i].bytes);
}

static bool is_kept(const struct large_block *b) {
    return b != NULL && b->state == LARGE_KEPT;
}

static void take_out(struct large_block *b) {
    large.kept.bytes -= b->bytes;
    large_kept_remove(&large.kept, b);
}

static void drop(struct large_block *b, struct unneeded *unneeded) {
    take_out(b);
    add_unneeded(unneeded, b, b->bytes);
}

static NOINLINE void drop_oldest(struct unneeded *unneeded) {
    struct large_block *oldest = large.kept.blocks[0];
    for (size_t i = 1; i < large.kept.n; i++)
        if (large.kept.blocks[i]->age < oldest->age)
            oldest = large.kept.blocks[i];
    drop(oldest, unneeded);
}

/* Bytes of a block before the first multiple of `alignment`. */
static size_t bytes_before(const struct large_block *b, size_t alignment) {
    return (size_t)(-(uintptr_t)b->start & (alignment - 1));
}

static bool fits(const struct large_block *b, size_t bytes, size_t alignment) {
    size_t before = bytes_before(b, alignment);
    return b->bytes >= bytes && b->bytes - bytes >= before;
}

/* As the next function, for all requests. */
static NOINLINE struct large_block *best_of_all(size_t bytes, size_t alignment, bool grows) {
    struct large_block *best = NULL;
    for (size_t i = 0; i < large.kept.n; i++) {
        struct large_block *b = large.kept.blocks[i];
        bool is_better = best == NULL || (b->bytes < best->bytes) != grows;
        if (is_better && fits(b, bytes, alignment))
            best = b;
    }
    return best;
}

/* The smallest kept block that holds `bytes` at a multiple of `alignment`, or, for a block that is
 * to grow, the largest; NULL if there is none. */
static struct large_block *best_kept(size_t bytes, size_t alignment, bool grows) {
    bool is_plain = alignment <= os_page_bytes() && !grows && bytes >> LENGTH_SHIFT < LENGTH_MOST;
    return likely(is_plain) ? large_kept_best(&large.kept, bytes)
                            : best_of_all(bytes, alignment, grows);
}

/* Cut `bytes` at a multiple of `alignment` out of a kept block, which has them; what is before and
 * behind stays kept.  What is behind and too little to be of use goes along, unless the block is to
 * grow into it. */
static struct large_block *cut_kept(struct large_block *b, size_t bytes, size_t alignment,
                                    bool grows) {
    size_t before = bytes_before(b, alignment);
    size_t behind = b->bytes - before - bytes;
    if (!grows && behind <= bytes / 100 * options.large_cache_slack) {
        bytes += behind;
        behind = 0;
    }
    size_t place = b->place;
    large.kept.bytes -= bytes;
    if (unlikely(before > 0)) {
        struct large_block *kept = b;
        b = large_split(&large.table, kept, before);
        large_kept_put(&large.kept, kept, place);
        if (behind > 0)
            large_kept_add(&large.kept, large_split(&large.table, b, bytes));
    } else if (behind > 0) {
        large_kept_put(&large.kept, large_split(&large.table, b, bytes), place);
    } else {
        large_kept_remove(&large.kept, b);
    }
    b->state = LARGE_IN_USE;
    return b;
}

/* Most bytes to keep: what, with the blocks in use, is large_cache_percent above the most that
 * ever was in use, and large_cache_bytes in any case. */
static size_t most_kept(void) {
    size_t room = large.most > large.bytes ? large.most - large.bytes : 0;
    return room > options.large_cache_bytes ? room : options.large_cache_bytes;
}

/* Drop the oldest kept blocks while there are too many of them. */
ALWAYS_INLINE void hold_limits(struct unneeded *unneeded) {
    while (unlikely(large.kept.n > options.large_cache_count || large.kept.bytes > most_kept()))
        drop_oldest(unneeded);
}

/* Keep a block for later, or not.  It becomes one with its kept neighbours: their addresses follow
 * each other, and the system does not care how they were mapped. */
static void keep(struct large_block *b, struct unneeded *unneeded) {
    if (unlikely(options.large_cache_count == 0 || options.large_cache_bytes == 0 ||
                 options.purge_delay == 0)) {
        add_unneeded(unneeded, b, b->bytes + guard_bytes_of_large());
        return;
    }
    large.kept.bytes += b->bytes;
    b->seen_ms = 0;
    b->age = ++large.last_age;
    if (is_kept(b->behind)) {
        large_kept_remove(&large.kept, b->behind);
        large_join(&large.table, b);
    }
    struct large_block *before = b->before;
    if (is_kept(before)) {
        large_join(&large.table, before);
        large_kept_put(&large.kept, before, before->place);
    } else {
        large_kept_add(&large.kept, b);
    }
    hold_limits(unneeded);
}

/* --- blocks --- */

/* Whether a block begins at `start`, or memory that was one. */
static bool is_known(const char *start) {
    biased_lock_take(&large.lock);
    bool is_there = large_find(&large.table, start) != NULL;
    biased_lock_release(&large.lock);
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

static bool map_block(struct large_block *b, size_t bytes, size_t alignment) {
    size_t all = bytes + guard_bytes_of_large();
    char *start = alignment <= os_page_bytes() ? map_anywhere(all) : os_map_aligned(all, alignment);
    bool is_advised = options.huge_pages == HUGE_ALWAYS || options.huge_pages == HUGE_NEVER;
    if (start == NULL)
        return false;
    if (is_advised && bytes >= HUGE_BYTES)
        os_advise_huge(start, bytes, options.huge_pages == HUGE_ALWAYS);
    b->start = start;
    b->bytes = bytes;
    b->is_guarded = options.secure && guard_last_page(start + all);
    return true;
}

/* A kept block, or a part of one, in use; NULL if none fits, or if out of memory. */
static void *take_kept(size_t bytes, size_t alignment, bool grows) {
    struct unneeded unneeded;
    unneeded.n = 0;
    biased_lock_take(&large.lock);
    struct large_block *b = make_room() ? best_kept(bytes, alignment, grows) : NULL;
    void *start = NULL;
    if (b != NULL) {
        b = cut_kept(b, bytes, alignment, grows);
        start = b->start;
        count_in(b);
        hold_limits(&unneeded); /* of one kept block, two may be left */
    }
    biased_lock_release(&large.lock);
    unmap(&unneeded);
    return start;
}

/* A description that describes nothing yet, NULL if out of memory. */
static struct large_block *describe(void) {
    biased_lock_take(&large.lock);
    struct large_block *b = make_room() ? large_describe(&large.table) : NULL;
    biased_lock_release(&large.lock);
    return b;
}

static void forget(struct large_block *b) {
    biased_lock_take(&large.lock);
    large_forget(&large.table, b);
    biased_lock_release(&large.lock);
}

/* Enter a block that is new where it lies. */
static void *enter(struct large_block *b) {
    struct unneeded unneeded;
    unneeded.n = 0;
    void *start = b->start;
    biased_lock_take(&large.lock);
    b->state = LARGE_IN_USE;
    large_arrive(&large.table, b);
    count_in(b);
    hold_limits(&unneeded);
    biased_lock_release(&large.lock);
    unmap(&unneeded);
    return start;
}

/* Take the largest kept block to grow to `bytes`, if that saves more page faults than it costs to
 * move it; NULL if not. */
static struct large_block *take_largest(size_t bytes) {
    biased_lock_take(&large.lock);
    struct large_block *b = best_of_all(bytes / 2, 1, true);
    if (b != NULL) {
        take_out(b);
        large_depart(&large.table, b);
    }
    biased_lock_release(&large.lock);
    return b;
}

/* The largest kept block, with new pages behind its own; NULL if there is none. */
static void *grow_kept(size_t bytes) {
    struct large_block *b = take_largest(bytes);
    if (b == NULL)
        return NULL;
    char *grown = os_remap(b->start, b->bytes, bytes);
    if (grown == NULL) {
        os_unmap(b->start, b->bytes);
        forget(b);
        return NULL;
    }
    b->start = grown;
    b->bytes = bytes;
    return enter(b);
}

/* What is kept may be what a limit has no room beside. */
static bool map_or_purge(struct large_block *b, size_t bytes, size_t alignment) {
    if (map_block(b, bytes, alignment))
        return true;
    large_purge_all();
    return map_block(b, bytes, alignment);
}

static NOINLINE void *allocate_mapped(size_t bytes, size_t alignment) {
    struct large_block *b = describe();
    if (b == NULL)
        return NULL;
    if (map_or_purge(b, bytes, alignment))
        return enter(b);
    forget(b);
    return NULL;
}

static void *allocate(size_t bytes, size_t alignment, bool grows, bool *is_zero) {
    *is_zero = false;
    if (unlikely(bytes > PTRDIFF_MAX - os_page_bytes() || alignment > PTRDIFF_MAX / 2))
        return NULL;
    bytes = round_up(bytes, os_page_bytes());
    void *start = take_kept(bytes, alignment, grows);
    if (unlikely(start == NULL) && alignment <= os_page_bytes())
        start = grow_kept(bytes);
    if (likely(start != NULL))
        return start;
    *is_zero = true;
    return allocate_mapped(bytes, alignment);
}

void *large_allocate(size_t bytes, size_t alignment, bool *is_zero) {
    return allocate(bytes, alignment, false, is_zero);
}

void *large_allocate_to_grow(size_t bytes) {
    bool is_zero;
    return allocate(bytes, BLOCK_ALIGNMENT, true, &is_zero);
}

/* The block in use that begins at `start`; NULL if none does. */
ALWAYS_INLINE struct large_block *find_in_use(const void *start) {
    struct large_block *b = large_find(&large.table, start);
    return b != NULL && b->state == LARGE_IN_USE ? b : NULL;
}

bool large_free(void *start) {
    struct unneeded unneeded;
    unneeded.n = 0;
    biased_lock_take(&large.lock);
    struct large_block *b = find_in_use(start);
    if (b != NULL) {
        if (unlikely(b->is_guarded)) /* it is not kept */
            guard_unmapped();
        count_out(b);
        keep(b, &unneeded);
    }
    biased_lock_release(&large.lock);
    unmap(&unneeded);
    return b != NULL;
}

size_t large_bytes(const void *start) {
    biased_lock_take(&large.lock);
    const struct large_block *b = find_in_use(start);
    size_t bytes = b != NULL ? b->bytes : 0;
    biased_lock_release(&large.lock);
    return bytes;
}

/* Leave what is behind the first `bytes` to be kept. */
static void shrink(struct large_block *b, size_t bytes, struct unneeded *unneeded) {
    large.bytes -= b->bytes - bytes;
    keep(large_split(&large.table, b, bytes), unneeded);
}

/* Let a block end later, in the kept memory behind it; false if there is not so much. */
static bool grow_in_place(struct large_block *b, size_t more) {
    struct large_block *behind = b->behind;
    if (!is_kept(behind) || behind->bytes < more)
        return false;
    large.kept.bytes -= more;
    if (behind->bytes == more) {
        large_kept_remove(&large.kept, behind);
        large_join(&large.table, b);
    } else {
        large_move_end(&large.table, b, more);
        large_kept_put(&large.kept, behind, behind->place);
    }
    add_bytes(more);
    return true;
}

/* Let a block end at another place without moving it.  False if it cannot be. */
static bool resize_in_place(struct large_block *b, size_t bytes, struct unneeded *unneeded) {
    if (bytes > b->bytes)
        return grow_in_place(b, bytes - b->bytes);
    if (bytes < b->bytes)
        shrink(b, bytes, unneeded);
    return true;
}

/* The block has left the table, since its addresses may be another's before the system call has
 * returned. */
static void *remap(struct large_block *b, size_t bytes) {
    char *moved = os_remap(b->start, b->bytes, bytes);
    if (moved != NULL) {
        b->start = moved;
        b->bytes = bytes;
    }
    enter(b);
    return moved;
}

/* A kept block for one that grows; NULL if none has room for all of it. */
static void *take_to_grow(size_t bytes) {
    struct large_block *b = best_of_all(bytes, 1, true);
    if (b == NULL)
        return NULL;
    b = cut_kept(b, bytes, 1, true);
    count_in(b);
    return b->start;
}

/* Copy a block to where it grows on, and keep what it was. */
static void *move_to(void *grown, struct large_block *b) {
    struct unneeded unneeded;
    unneeded.n = 0;
    memcpy(grown, b->start, b->bytes);
    biased_lock_take(&large.lock);
    keep(b, &unneeded);
    biased_lock_release(&large.lock);
    unmap(&unneeded);
    return grown;
}

void *large_resize(void *start, size_t bytes) {
    struct unneeded unneeded;
    unneeded.n = 0;
    if (options.secure || bytes > PTRDIFF_MAX - os_page_bytes())
        return NULL; /* two mappings, block and guard, cannot be resized as one */
    bytes = round_up(bytes, os_page_bytes());
    void *grown = NULL;
    biased_lock_take(&large.lock);
    bool has_room = make_room();
    struct large_block *b = large_find(&large.table, start);
    bool stays = has_room && resize_in_place(b, bytes, &unneeded);
    if (has_room && !stays) {
        count_out(b);
        b->state = LARGE_MOVING;
        grown = take_to_grow(bytes);
        if (grown == NULL)
            large_depart(&large.table, b);
    }
    biased_lock_release(&large.lock);
    unmap(&unneeded);
    if (stays || !has_room)
        return stays ? start : NULL;
    return grown != NULL ? move_to(grown, b) : remap(b, bytes);
}

void *large_move_in(void *start, size_t old_bytes, size_t bytes) {
    struct large_block *b = bytes > PTRDIFF_MAX - os_page_bytes() ? NULL : describe();
    if (b == NULL)
        return NULL;
    bytes = round_up(bytes, os_page_bytes());
    char *moved = os_move_out(start, old_bytes, bytes);
    if (moved == NULL) {
        forget(b);
        return NULL;
    }
    b->start = moved;
    b->bytes = bytes;
    b->is_guarded = false;
    return enter(b);
}

/* The lock is held already. */
static void drop_old(uint64_t now_ms, struct unneeded *unneeded) {
    for (size_t i = large.kept.n; i-- > 0;) {
        struct large_block *b = large.kept.blocks[i];
        if (b->seen_ms == 0)
            b->seen_ms = now_ms;
        else if (now_ms >= b->seen_ms + options.purge_delay)
            drop(b, unneeded);
    }
}

bool large_purge(uint64_t now_ms) {
    struct unneeded unneeded;
    unneeded.n = 0;
    if (__atomic_load_n(&large.kept.n, __ATOMIC_RELAXED) == 0)
        return false;
    if (!biased_lock_try(&large.lock))
        return true;
    drop_old(now_ms, &unneeded);
    bool is_left = large.kept.n > 0;
    biased_lock_release(&large.lock);
    unmap(&unneeded);
    return is_left;
}

void large_purge_all(void) {
    struct unneeded unneeded;
    unneeded.n = 0;
    biased_lock_take(&large.lock);
    while (large.kept.n > 0)
        drop(large.kept.blocks[large.kept.n - 1], &unneeded);
    biased_lock_release(&large.lock);
    unmap(&unneeded);
    retired_give_back();
}

void large_count(size_t *n_blocks, size_t *n_bytes) {
    biased_lock_take(&large.lock);
    *n_blocks = large.n_blocks;
    *n_bytes = large.bytes;
    biased_lock_release(&large.lock);
}

static bool kept_is_valid(void) {
    size_t bytes = 0;
    for (size_t i = 0; i < large.kept.n; i++) {
        const struct large_block *b = large.kept.blocks[i];
        bytes += b->bytes;
        if (b->bytes == 0 || b->bytes % os_page_bytes() != 0 || b->state != LARGE_KEPT ||
            b->place != i || large.kept.keys[i] != large_key(b->bytes, i) || is_kept(b->behind) ||
            large_find(&large.table, b->start) != b)
            return false;
    }
    return bytes == large.kept.bytes && large.kept.keys[large.kept.n] == 0;
}

static void count_in_table(size_t *n_blocks, size_t *n_bytes) {
    const struct large_table *t = &large.table;
    for (size_t i = 0; t->heads != NULL && i < HEADS_FOR_EACH * t->n_all; i++)
        for (const struct large_block *b = t->heads[i]; b != NULL; b = b->next) {
            *n_blocks += b->state == LARGE_IN_USE;
            *n_bytes += b->state == LARGE_IN_USE ? b->bytes : 0;
        }
}

bool large_is_valid(void) {
    size_t n = 0;
    size_t bytes = 0;
    biased_lock_take(&large.lock);
    bool valid = large.kept.n <= options.large_cache_count && large.bytes <= large.peak &&
                 large_table_is_valid(&large.table) && kept_is_valid() &&
                 large.kept.bytes <= most_kept();
    count_in_table(&n, &bytes);
    valid = valid && n == large.n_blocks && bytes == large.bytes;
    biased_lock_release(&large.lock);
    return valid;
}

void large_lock(void) {
    biased_lock_take_really(&large.lock);
}

void large_unlock(void) {
    biased_lock_release(&large.lock);
}
