/* superblock.c - units and slabs inside one superblock, and the owner map.
 *
 * Units are handed out address-ordered first fit from a bitmap, so merging
 * freed neighbours is the clearing of bits and costs nothing.  Three sets
 * describe them: aged <= dirty <= free.  The purger moves dirty units to aged
 * at one look and gives the aged ones back at the next, so memory returns to the
 * system after one to two delays without use, whatever else happens near it.
 *
 * Not thread-safe: a superblock belongs to one heap, or to the locked pool.
 */
#include "memory/superblock.h"

#include "base/options.h"
#include "memory/guard.h"
#include "system/os.h"

_Static_assert(offsetof(struct superblock, slab) % CACHE_LINE == 0,
               "slabs must not share cache lines");
_Static_assert(N_UNITS_MAX <= 1 << (N_BUCKETS - 1), "a bucket for every run");

/* --- life of a superblock --- */

static void measure_largest_run(struct superblock *sb) {
    size_t longest = 0;
    size_t at = set_next(&sb->free, sb->first_unit, sb->n_units, true);
    while (at < sb->n_units) {
        size_t end = set_next(&sb->free, at, sb->n_units, false);
        if (end - at > longest)
            longest = end - at;
        at = set_next(&sb->free, end, sb->n_units, true);
    }
    sb->largest_run = (uint16_t)longest;
}

/* A guard behind the head, and one for the last unit, before the next superblock's head. */
static void add_guards(struct superblock *sb) {
    enum {
        N_UNITS_WORTH_IT = 16 /* a smaller superblock has no room to give up two units */
    };
    size_t guard = guard_bytes();
    if (guard == 0)
        return;
    bool is_roomy = sb->n_units >= N_UNITS_WORTH_IT;
    sb->head_bytes =
        (uint32_t)round_up(sb->head_bytes + guard, is_roomy ? UNIT_BYTES : os_page_bytes());
    os_protect(superblock_start(sb) + sb->head_bytes - guard, guard, true); /* or is left out */
    if (is_roomy && os_protect(superblock_start(sb) + layout.bytes - UNIT_BYTES, UNIT_BYTES, true))
        sb->n_units--;
}

static size_t table_end(void) {
    return sizeof(struct superblock) + layout.n_units * sizeof(struct slab);
}

/* Where a head of so many bytes ends: behind it there must be room for a block of any class that
 * may share a unit with the head, up to a quarter of it, and at a multiple of that. */
static uint32_t head_end(size_t bytes) {
    size_t quarter = UNIT_BYTES / 4;
    bool has_room = round_up(bytes, quarter) + quarter <= round_up(bytes, UNIT_BYTES);
    return (uint32_t)(has_room || layout.n_units == 1 ? bytes : round_up(bytes, UNIT_BYTES));
}

/* Make mapped memory an empty superblock, with room for a heap of so many bytes if any. */
static struct superblock *set_up(char *start, size_t heap_bytes) {
    struct superblock *sb = superblock_of((uintptr_t)start);
    ASSERT(owner_of_any((uintptr_t)sb) == OWNER_NONE);
    if (options.prefault)
        os_populate(start, layout.bytes);
    sb->n_units = (uint16_t)layout.n_units;
    sb->head_bytes = head_end((size_t)((char *)sb - start) + table_end() + heap_bytes);
    sb->holds_heap = heap_bytes > 0;
    if (options.secure)
        add_guards(sb);
    sb->first_unit = (uint8_t)(sb->head_bytes >> UNIT_SHIFT);
    sb->n_free = (uint16_t)(sb->n_units - sb->first_unit);
    set_add(&sb->free, sb->first_unit, sb->n_free);
    sb->largest_run = sb->n_free;
    return sb;
}

/* Memory for superblocks, `bytes` of it and aligned to that; NULL also where the
 * owner map does not reach. */
static char *map_group(size_t bytes) {
    char *start = os_map_aligned(bytes, bytes);
    if (start == NULL)
        return NULL;
    if (owner_map_widen(start, bytes))
        return start;
    os_unmap(start, bytes);
    return NULL;
}

static struct superblock *create(size_t heap_bytes) {
    char *start = map_group(layout.bytes);
    if (start == NULL)
        return NULL;
    if (options.huge_pages == HUGE_NEVER)
        os_advise_huge(start, layout.bytes, false);
    return set_up(start, heap_bytes);
}

struct superblock *superblock_create(void) {
    return create(0);
}

struct superblock *superblock_create_for_heap(size_t bytes) {
    size_t room = UNIT_BYTES - (table_end() & (UNIT_BYTES - 1));
    bool fits = layout.n_units > 1 && bytes + UNIT_BYTES / 4 <= room && !options.secure;
    return fits && options.huge_pages != HUGE_ALWAYS ? create(bytes) : NULL;
}

void *superblock_heap_place(struct superblock *sb) {
    ASSERT(sb->holds_heap);
    return (char *)sb + table_end();
}

struct superblock *superblock_create_huge(void) {
    size_t bytes = layout.bytes > HUGE_BYTES ? layout.bytes : HUGE_BYTES;
    char *start = map_group(bytes);
    if (start == NULL)
        return superblock_create();
    os_advise_huge(start, bytes, true);
    struct superblock *first = NULL;
    for (size_t at = bytes; at > 0; at -= layout.bytes) {
        struct superblock *sb = set_up(start + at - layout.bytes, 0);
        sb->dirty = sb->free; /* one touched byte makes all of them resident */
        sb->n_dirty = sb->n_free;
        sb->next = first;
        first = sb;
    }
    return first;
}

bool superblock_destroy(struct superblock *sb, bool waits) {
    ASSERT(superblock_is_empty(sb) && !sb->holds_heap);
    if (!owner_map_lock(waits))
        return false;
    superblock_set_owner(sb, NULL, OWNER_NONE);
    owner_map_unlock();
    os_unmap(superblock_start(sb), layout.bytes);
    return true;
}

bool superblock_leave_head(struct superblock *sb) {
    ASSERT(superblock_is_empty(sb) && sb->holds_heap);
    char *start = superblock_start(sb);
    size_t from = round_down((uintptr_t)sb - (uintptr_t)start, os_page_bytes());
    size_t to = round_up(sb->head_bytes, os_page_bytes());
    if (to >= layout.bytes || !os_unmap(start + to, layout.bytes - to))
        return false;
    if (from > 0)
        os_unmap(start, from);
    return true;
}

void superblock_set_owner(struct superblock *sb, struct heap *owner, uint8_t number) {
    __atomic_store_n(&sb->owner, owner, __ATOMIC_RELAXED);
    owner_set(sb, number);
}

/* --- a look at superblocks whose owners run --- */

/* Read what an owner may be writing: each value is one that was there, not all of
 * them at the same time, hence no more than plausible. */
__attribute__((no_sanitize("thread"))) static void count_slabs(const struct superblock *sb,
                                                               struct superblock_counts *c) {
    for (size_t i = 0; i < layout.n_units; i++) {
        const volatile struct slab *slab = &sb->slab[i];
        if (slab->n_units == 0)
            continue;
        uint32_t carved = slab->carved;
        uint32_t used = (uint32_t)slab->countdown + 1 + slab->asleep;
        used = used <= carved ? used : carved;
        size_t bytes = (size_t)(slab->class == CLASS_TRAY ? carved : used) * slab->block_bytes;
        size_t most = (size_t)slab->n_units << UNIT_SHIFT;
        c->n_blocks += used;
        c->block_bytes += bytes <= most ? bytes : most;
    }
}

__attribute__((no_sanitize("thread"))) static bool head_is_plausible(const struct superblock *sb) {
    size_t least = table_end();
    return sb->n_units <= layout.n_units && sb->n_units + 1u >= layout.n_units &&
           sb->head_bytes >= least && sb->first_unit == sb->head_bytes >> UNIT_SHIFT;
}

struct superblock_counts superblock_count_others(const struct heap *except) {
    struct superblock_counts c = {.plausible = true};
    owner_map_lock(true);
    for (const void *start = NULL; (start = owner_map_next(start)) != NULL;) {
        const struct superblock *sb = superblock_of((uintptr_t)start);
        if (superblock_owner(sb) == except)
            continue;
        c.n_superblocks++;
        c.plausible = c.plausible && head_is_plausible(sb);
        count_slabs(sb, &c);
    }
    owner_map_unlock();
    return c;
}

/* --- slabs --- */

/* superblock_find in those of up to 64 units: after the shifts, a bit stands
 * where a run of n begins. */
static size_t find_in_word(uint64_t starts, size_t n, size_t step, size_t none) {
    for (size_t left = n - 1, shift = 1; left > 0 && starts != 0; left -= shift, shift *= 2) {
        if (shift > left)
            shift = left;
        starts &= starts >> shift;
    }
    if (step > 1)
        starts &= UINT64_MAX / ((UINT64_C(1) << step) - 1); /* a bit for each multiple */
    return starts != 0 ? (size_t)__builtin_ctzll(starts) : none;
}

size_t superblock_find(const struct superblock *sb, bool touched, size_t n, size_t step) {
    const struct unit_set *set = touched ? &sb->dirty : &sb->free;
    size_t from = (size_t)sb->first_unit + (step > 0);
    if (sb->n_units <= 64)
        return from < 64 && n <= 64
                   ? find_in_word(set->word[0] >> from << from, n, step, sb->n_units)
                   : sb->n_units;
    size_t at = set_next(set, from, sb->n_units, true);
    while (at < sb->n_units) {
        size_t end = set_next(set, at, sb->n_units, false);
        size_t begin = step > 1 ? round_up(at, step) : at;
        if (begin + n <= end)
            return begin;
        at = set_next(set, end, sb->n_units, true);
    }
    return sb->n_units;
}

char *superblock_unit_start(struct superblock *sb, size_t at) {
    return superblock_start(sb) + (at == sb->first_unit ? sb->head_bytes : at << UNIT_SHIFT);
}

/* Take `n` units out of the free set; true if all of them read as zero.  The
 * first unit shares a page with the head, which is never given back, and what
 * MADV_FREE does is not known, so those are not trusted. */
static bool take_units(struct superblock *sb, size_t at, size_t n) {
    ASSERT(set_count(&sb->free, at, n) == n);
    size_t run = set_next(&sb->free, at + n, sb->n_units, false) - set_run_start(&sb->free, at);
    set_remove(&sb->free, at, n);
    set_remove(&sb->aged, at, n);
    size_t n_dirty = set_remove(&sb->dirty, at, n);
    sb->n_dirty = (uint16_t)(sb->n_dirty - n_dirty);
    sb->n_free = (uint16_t)(sb->n_free - n);
    if (run == sb->largest_run)
        measure_largest_run(sb);
    return n_dirty == 0 && at > sb->first_unit && options.purge_how != PURGE_FREE;
}

/* Put `n` units into the free set, of which the first `n_dirty` were touched. */
static void give_units(struct superblock *sb, size_t at, size_t n, size_t n_dirty) {
    set_add(&sb->free, at, n);
    set_add(&sb->dirty, at, n_dirty);
    sb->n_free = (uint16_t)(sb->n_free + n);
    sb->n_dirty = (uint16_t)(sb->n_dirty + n_dirty);
    size_t run = set_next(&sb->free, at + n, sb->n_units, false) - set_run_start(&sb->free, at);
    if (run > sb->largest_run)
        sb->largest_run = (uint16_t)run;
}

struct slab *superblock_take(struct superblock *sb, size_t at, size_t n) {
    struct slab *slab = &sb->slab[at];
    *slab = (struct slab){
        .start = superblock_unit_start(sb, at),
        .n_units = (uint16_t)n,
        .countdown = -1,
        .class = CLASS_NONE,
    };
    slab->clean = take_units(sb, at, n);
    slab->state = SLAB_ASLEEP;
    for (size_t i = 1; i < n; i++)
        slab[i].to_first = (uint32_t)(i << SLAB_SHIFT);
    return slab;
}

/* Units of the slab that may hold touched pages; they come first. */
static size_t touched_units(const struct slab *slab) {
    if (!slab->clean || slab->class == CLASS_UNIT_RUN)
        return slab->n_units;
    size_t end =
        ((uintptr_t)slab->start & (UNIT_BYTES - 1)) + (size_t)slab->carved * slab->block_bytes;
    return (end + UNIT_BYTES - 1) >> UNIT_SHIFT;
}

void superblock_give(struct superblock *sb, struct slab *slab) {
    size_t n = slab->n_units;
    size_t n_dirty = touched_units(slab);
    for (size_t i = 1; i < n; i++) {
        slab[i].to_first = 0;
        slab[i].unit_class = 0;
    }
    *slab = (struct slab){.class = CLASS_NONE};
    give_units(sb, (size_t)(slab - sb->slab), n, n_dirty);
}

void superblock_shrink_run(struct superblock *sb, struct slab *slab, size_t n) {
    ASSERT(slab->class == CLASS_UNIT_RUN && n < slab->n_units);
    slab->n_units = (uint16_t)(slab->n_units - n);
    slab->block_bytes -= (uint32_t)(n << UNIT_SHIFT);
    for (size_t i = 0; i < n; i++)
        slab[slab->n_units + i].to_first = 0;
    give_units(sb, (size_t)(slab - sb->slab) + slab->n_units, n, n);
}

bool superblock_grow_run(struct superblock *sb, struct slab *slab, size_t n) {
    ASSERT(slab->class == CLASS_UNIT_RUN);
    size_t end = (size_t)(slab - sb->slab) + slab->n_units;
    if (end + n > sb->n_units || set_next(&sb->free, end, end + n, false) != end + n)
        return false;
    take_units(sb, end, n);
    for (size_t i = 0; i < n; i++)
        slab[slab->n_units + i].to_first = (uint32_t)((slab->n_units + i) << SLAB_SHIFT);
    slab->n_units = (uint16_t)(slab->n_units + n);
    slab->block_bytes += (uint32_t)(n << UNIT_SHIFT);
    return true;
}

/* --- giving memory back --- */

/* Give back the whole pages of a run of free units, but not the page on which the head ends. */
static void purge_run(struct superblock *sb, size_t at, size_t end) {
    size_t page_units = os_page_bytes() >> UNIT_SHIFT;
    if (page_units > 1) {
        at = round_up(at + (at == sb->first_unit), page_units);
        end = round_down(end, page_units);
    }
    char *from = superblock_unit_start(sb, at);
    char *to = superblock_start(sb) + (end << UNIT_SHIFT);
    if (at >= end || (size_t)(to - from) < options.purge_min)
        return;
    if (os_purge(from, (size_t)(to - from), options.purge_how))
        sb->n_dirty = (uint16_t)(sb->n_dirty - set_remove(&sb->dirty, at, end - at));
}

void superblock_purge(struct superblock *sb, bool all) {
    if (options.purge_how == PURGE_NEVER)
        return;
    const struct unit_set old = all ? sb->dirty : sb->aged;
    size_t at = set_next(&old, sb->first_unit, sb->n_units, true);
    while (at < sb->n_units) {
        size_t end = set_next(&old, at, sb->n_units, false);
        purge_run(sb, at, end);
        at = set_next(&old, end, sb->n_units, true);
    }
    sb->aged = sb->dirty;
}

/* --- walkers --- */

bool superblock_is_valid(const struct superblock *sb) {
    size_t n_free = 0;
    for (size_t i = sb->first_unit; i < sb->n_units;) {
        bool is_free = set_has(&sb->free, i);
        if (is_free ? sb->slab[i].state != SLAB_FREE || sb->slab[i].countdown != 0
                    : sb->slab[i].state == SLAB_FREE || sb->slab[i].n_units == 0)
            return false;
        n_free += is_free;
        i += is_free ? 1 : sb->slab[i].n_units;
    }
    struct superblock measured = {.n_units = sb->n_units, .first_unit = sb->first_unit};
    measured.free = sb->free;
    measure_largest_run(&measured);
    if (measured.largest_run != sb->largest_run)
        return false;
    for (size_t i = 0; i < N_UNIT_WORDS; i++)
        if ((sb->aged.word[i] & ~sb->dirty.word[i]) != 0 ||
            (sb->dirty.word[i] & ~sb->free.word[i]) != 0)
            return false;
    return n_free == sb->n_free && set_count(&sb->dirty, 0, sb->n_units) == sb->n_dirty;
}
