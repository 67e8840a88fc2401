/* tray.c - blocks of any size in steps; see tray.h.
 *
 * Inside a tray: address-ordered first fit, by shifting the set of free steps over itself
 * (log2 of the length shifts).  Among trays: lists by the longest free run, of which
 * each knows an upper bound that is corrected when a search fails; the tray with the least
 * sufficient bound comes first, so that others can become empty.  Hence O(1) amortized: a
 * failed search lowers a bound that only a free raises.
 */
#include "tray.h"

#include <string.h>

#include "options.h"
#include "os.h"
#include "supply.h"

enum {
    FIRST_LENGTHS = 3, /* entry of the table */
    LENGTHS = 32,      /* in an entry */
    N_LENGTH_ENTRIES = (N_STEPS + LENGTHS - 1) / LENGTHS
};

_Static_assert(FIRST_LENGTHS + N_LENGTH_ENTRIES <= N_STEPS * 1024 / UNIT_BYTES,
               "the smallest tray must have entries for all its lengths");
_Static_assert(N_STEPS < 8 * sizeof(step_set), "no step may look like the last bit of a set");
_Static_assert(sizeof(((struct slab *)0)->lengths) == LENGTHS, "as many lengths as there is room");
_Static_assert(2 * N_TRAY_BLOCK_MAX - 1 < N_TRAY_LISTS, "a list for every aligned request");

/* --- sets of steps --- */

static step_set steps(size_t from, size_t n) {
    return (((step_set)1 << n) - 1) << from;
}

/* Lowest step in the set, which is not empty. */
static size_t lowest(step_set s) {
    uint64_t low = (uint64_t)s;
    return low != 0 ? (size_t)__builtin_ctzll(low)
                    : 64 + (size_t)__builtin_ctzll((uint64_t)(s >> 64));
}

static size_t highest(step_set s) {
    uint64_t high = (uint64_t)(s >> 64);
    return high != 0 ? 127 - (size_t)__builtin_clzll(high)
                     : 63 - (size_t)__builtin_clzll((uint64_t)s);
}

/* Length of the free run around `at`, which is free. */
static size_t run_around(step_set free, size_t at) {
    step_set before = ~free & steps(0, at);
    size_t end = at + lowest(~free >> at);
    return before != 0 ? end - highest(before) - 1 : end;
}

/* Where runs of `n` free steps begin. */
static step_set starts_of(step_set free, size_t n) {
    for (size_t left = n - 1, step = 1; left > 0 && free != 0; left -= step, step *= 2) {
        if (step > left)
            step = left;
        free &= free >> step;
    }
    return free;
}

/* Every `n`-th step, of a power of two. */
static step_set every(size_t n) {
    step_set s = 1;
    for (; n < N_STEPS; n *= 2)
        s |= s << n;
    return s;
}

/* --- one tray --- */

static uint8_t *length_at(struct slab *slab, size_t step) {
    return &slab[FIRST_LENGTHS + step / LENGTHS].lengths[step % LENGTHS];
}

static size_t step_bytes(void) {
    return options.tray_step;
}

static size_t steps_for(size_t bytes) {
    return (bytes + step_bytes() - 1) / step_bytes();
}

/* The step that begins at `block`; N_STEPS if none does. */
static size_t step_at(const struct slab *slab, const void *block) {
    size_t offset = (size_t)((const char *)block - slab->start);
    return (offset & (step_bytes() - 1)) == 0 ? offset >> log2_floor(step_bytes()) : N_STEPS;
}

size_t tray_block_bytes(const struct slab *slab, const void *block) {
    size_t at = step_at(slab, block);
    if (at == N_STEPS)
        return 0;
    return slab[FIRST_LENGTHS + at / LENGTHS].lengths[at % LENGTHS] * step_bytes();
}

void tray_check(const struct slab *slab, const void *block) {
    if (tray_block_bytes(slab, block) > 0)
        return;
    size_t at = (size_t)((const char *)block - slab->start) / step_bytes();
    bool is_free = slab[1].free_steps >> at & 1;
    fatal(is_free ? "double free" : "invalid free, inside a block", block);
}

/* Take free steps into use; true if they read as zero. */
static bool take_steps(struct slab *slab, size_t at, size_t n) {
    step_set taken = steps(at, n);
    bool is_zero = (slab[1].dirty_steps & taken) == 0 && options.purge_how != PURGE_FREE;
    slab[1].free_steps &= ~taken;
    slab[1].dirty_steps &= ~taken;
    slab[2].aged_steps &= ~taken;
    slab->carved += (uint32_t)n;
    return is_zero;
}

static void give_steps(struct slab *slab, size_t at, size_t n) {
    step_set given = steps(at, n);
    slab[1].free_steps |= given;
    slab[1].dirty_steps |= given;
    slab->carved -= (uint32_t)n;
}

/* --- the heap's trays --- */

static size_t list_of(const struct slab *slab) {
    return slab->capacity < N_TRAY_LISTS ? slab->capacity : N_TRAY_LISTS - 1;
}

static void list_insert(struct heap *heap, struct slab *slab) {
    size_t list = list_of(slab);
    slab->previous = NULL;
    slab->next = heap->trays[list];
    if (slab->next != NULL)
        slab->next->previous = slab;
    heap->trays[list] = slab;
    heap->tray_lists |= (uint64_t)1 << list;
}

static void list_remove(struct heap *heap, struct slab *slab) {
    size_t list = list_of(slab);
    if (slab->next != NULL)
        slab->next->previous = slab->previous;
    if (slab->previous != NULL) {
        slab->previous->next = slab->next;
    } else {
        heap->trays[list] = slab->next;
        if (slab->next == NULL)
            heap->tray_lists &= ~((uint64_t)1 << list);
    }
}

/* The longest run of free steps is now known to be at most `longest`. */
static void set_longest(struct heap *heap, struct slab *slab, size_t longest) {
    if (slab->capacity == longest)
        return;
    list_remove(heap, slab);
    slab->capacity = (uint32_t)longest;
    list_insert(heap, slab);
}

void tray_link(struct heap *heap, struct slab *slab) {
    heap->n_trays++;
    heap->n_empty_trays += slab_used(slab) == 0;
    list_insert(heap, slab);
}

void tray_unlink(struct heap *heap, struct slab *slab) {
    heap->n_trays--;
    heap->n_empty_trays -= slab_used(slab) == 0;
    list_remove(heap, slab);
}

size_t tray_units(void) {
    size_t n = N_STEPS * step_bytes() / UNIT_BYTES;
    return options.secure || n > layout.n_units / 4 ? 0 : n;
}

size_t tray_largest(void) {
    size_t most = N_TRAY_BLOCK_MAX * step_bytes();
    return tray_units() == 0 ? 0 : options.tray_max < most ? options.tray_max : most;
}

static struct slab *new_tray(struct heap *heap) {
    struct slab *slab = supply_take(heap, tray_units(), false);
    if (slab == NULL)
        return NULL;
    slab->class = CLASS_TRAY;
    slab->block_bytes = (uint32_t)step_bytes();
    slab->capacity = N_STEPS;
    slab[1].free_steps = steps(0, N_STEPS);
    slab[1].dirty_steps = slab->clean ? 0 : steps(0, N_STEPS);
    slab[2].aged_steps = 0;
    for (size_t i = 0; i < N_LENGTH_ENTRIES; i++)
        memset(slab[FIRST_LENGTHS + i].lengths, 0, LENGTHS);
    superblock_of((uintptr_t)slab)->n_trays++;
    tray_link(heap, slab);
    return slab;
}

/* Give the units of an empty tray back to the supply. */
static void release(struct heap *heap, struct slab *slab) {
    ASSERT(slab_used(slab) == 0);
    tray_unlink(heap, slab);
    superblock_of((uintptr_t)slab)->n_trays--;
    step_set dirty = slab[1].dirty_steps;
    slab->clean = true; /* but for what lies before `carved` */
    slab->carved = dirty != 0 ? (uint32_t)highest(dirty) + 1 : 0;
    for (size_t i = 1; i < FIRST_LENGTHS + N_LENGTH_ENTRIES; i++)
        memset(slab[i].lengths, 0, sizeof slab[i].lengths);
    supply_give(heap, slab);
}

void tray_trim(struct heap *heap) {
    struct slab *slab = heap->trays[N_TRAY_LISTS - 1];
    for (struct slab *next; heap->n_empty_trays > 0 && slab != NULL; slab = next) {
        next = slab->next;
        if (slab_used(slab) == 0)
            release(heap, slab);
    }
}

/* --- blocks --- */

static void *take_block(struct heap *heap, struct slab *slab, size_t at, size_t n, bool *is_zero) {
    heap->n_empty_trays -= slab->asleep == 0;
    slab->asleep++;
    *is_zero = take_steps(slab, at, n);
    *length_at(slab, at) = (uint8_t)n;
    return slab->start + at * step_bytes();
}

/* The tray with the least room that may be enough for `n_room` steps; NULL if there is none. */
static struct slab *find_tray(const struct heap *heap, size_t n_room) {
    uint64_t lists = heap->tray_lists >> n_room << n_room;
    return lists != 0 ? heap->trays[__builtin_ctzll(lists)] : NULL;
}

void *tray_allocate(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero) {
    size_t n = steps_for(bytes);
    size_t n_apart = alignment > step_bytes() ? alignment / step_bytes() : 1;
    size_t n_room = n + n_apart - 1; /* free steps among which an aligned block fits for certain */
    for (;;) {
        struct slab *slab = find_tray(heap, n_room);
        if (slab == NULL)
            slab = new_tray(heap);
        if (slab == NULL)
            return NULL;
        step_set starts = starts_of(slab[1].free_steps, n);
        if (n_apart > 1)
            starts &= every(n_apart);
        if (starts != 0)
            return take_block(heap, slab, lowest(starts), n, is_zero);
        set_longest(heap, slab, n_room - 1);
    }
}

/* After steps around `at` became free. */
static void note_room(struct heap *heap, struct slab *slab, size_t at) {
    size_t run = run_around(slab[1].free_steps, at);
    if (run > slab->capacity)
        set_longest(heap, slab, run);
    supply_schedule_purge(heap);
}

void tray_free(struct heap *heap, struct slab *slab, void *block) {
    slab->countdown = -1;
    tray_check(slab, block);
    size_t at = step_at(slab, block);
    uint8_t *length = length_at(slab, at);
    give_steps(slab, at, *length);
    *length = 0;
    slab->asleep--;
    note_room(heap, slab, at);
    if (slab->asleep > 0)
        return;
    heap->n_empty_trays++;
    if (heap->n_empty_trays > 1 || options.empty_slabs == 0)
        release(heap, slab);
}

bool tray_resize(struct heap *heap, struct slab *slab, void *block, size_t bytes) {
    size_t at = step_at(slab, block);
    uint8_t *length = length_at(slab, at);
    size_t n_old = *length;
    size_t n = steps_for(bytes);
    if (bytes <= classes.largest || bytes > tray_largest())
        return false;
    if (n > n_old) {
        step_set more = at + n <= N_STEPS ? steps(at + n_old, n - n_old) : 0;
        if (more == 0 || (slab[1].free_steps & more) != more)
            return false;
        take_steps(slab, at + n_old, n - n_old);
    }
    *length = (uint8_t)n;
    if (n < n_old) {
        give_steps(slab, at + n, n_old - n);
        note_room(heap, slab, at + n);
    }
    return true;
}

/* --- giving memory back --- */

/* Give back the pages [from, to) of steps. */
static void purge_run(struct slab *slab, size_t from, size_t to) {
    size_t bytes = (to - from) * step_bytes();
    if (to <= from || bytes < options.purge_min)
        return;
    if (os_purge(slab->start + from * step_bytes(), bytes, options.purge_how))
        slab[1].dirty_steps &= ~steps(from, to - from);
}

/* Whether a page is free and was so at the last look, or, with `all`, is free; and was written. */
static bool may_purge(const struct slab *slab, step_set page, bool all) {
    step_set dirty = slab[1].dirty_steps & page;
    return (slab[1].free_steps & page) == page && dirty != 0 &&
           (all || (dirty & ~slab[2].aged_steps) == 0);
}

static void purge_one(struct slab *slab, bool all) {
    if (os_page_bytes() > UNIT_BYTES)
        return; /* a tray need not begin with a page */
    size_t n = os_page_bytes() > step_bytes() ? os_page_bytes() / step_bytes() : 1;
    size_t from = 0;
    for (size_t at = 0; at + n <= N_STEPS; at += n)
        if (!may_purge(slab, steps(at, n), all)) {
            purge_run(slab, from, at);
            from = at + n;
        }
    purge_run(slab, from, N_STEPS / n * n);
    slab[2].aged_steps = slab[1].dirty_steps;
}

void tray_purge(struct superblock *sb, bool all) {
    size_t n_left = options.purge_how != PURGE_NEVER ? sb->n_trays : 0;
    for (size_t i = sb->first_unit; n_left > 0 && i < sb->n_units; i++)
        if (sb->slab[i].n_units > 0 && sb->slab[i].class == CLASS_TRAY) {
            purge_one(&sb->slab[i], all);
            n_left--;
        }
}

/* --- walkers --- */

bool tray_is_valid(const struct slab *slab) {
    size_t n_blocks = 0;
    size_t n_used = 0;
    size_t run = 0;
    for (size_t at = 0; at < N_STEPS;) {
        size_t length = slab[FIRST_LENGTHS + at / LENGTHS].lengths[at % LENGTHS];
        bool is_free = slab[1].free_steps >> at & 1;
        if (is_free == (length > 0) || at + length > N_STEPS)
            return false;
        if (!is_free && (slab[1].free_steps & steps(at, length)) != 0)
            return false;
        n_blocks += !is_free;
        n_used += length;
        run = is_free ? run + 1 : 0;
        if (run > slab->capacity)
            return false;
        at += is_free ? 1 : length;
    }
    return slab->countdown == -1 && slab->asleep == n_blocks && slab->carved == n_used &&
           (slab[1].dirty_steps & ~slab[1].free_steps) == 0 &&
           (slab[2].aged_steps & ~slab[1].dirty_steps) == 0;
}

bool trays_are_valid(const struct heap *heap) {
    size_t n = 0;
    size_t n_empty = 0;
    for (size_t list = 0; list < N_TRAY_LISTS; list++) {
        if ((heap->trays[list] != NULL) != (heap->tray_lists >> list & 1))
            return false;
        for (const struct slab *slab = heap->trays[list]; slab != NULL; slab = slab->next) {
            if (slab->class != CLASS_TRAY || list_of(slab) != list)
                return false;
            n++;
            n_empty += slab_used(slab) == 0;
        }
    }
    return n == heap->n_trays && n_empty == heap->n_empty_trays;
}
