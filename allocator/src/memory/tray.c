/* tray.c - blocks of any size in steps; see tray.h.
 *
 * Inside a tray: address-ordered first fit, run by run (see step_set.h).  Among trays: lists by the
 * longest free run; the tray with the least sufficient one comes first, so that others can become
 * empty.  Hence O(1).
 */
#include "memory/tray.h"

#include <string.h>

#include "base/options.h"
#include "heap/supply.h"
#include "memory/step_set.h"
#include "system/os.h"

enum {
    LENGTHS = 16,      /* in half an entry: of the steps of one unit */
    OWN_LENGTHS = 2,   /* first unit whose entry has room for its own */
    OTHERS_LENGTHS = 3 /* first unit whose entry has room for another's as well */
};

_Static_assert(OTHERS_LENGTHS + OWN_LENGTHS <= N_STEPS * 1024 / UNIT_BYTES,
               "the smallest tray must have entries for all its lengths");
_Static_assert(sizeof(((struct slab *)0)->lengths) == (size_t)2 * LENGTHS, "both halves");
_Static_assert(LENGTHS * 1024 == UNIT_BYTES, "as many lengths as there is room");
_Static_assert(2 * N_TRAY_BLOCK_MAX - 1 < N_TRAY_LISTS, "a list for every aligned request");

struct tray_layout tray_layout;

void tray_init(void) {
    size_t n = N_STEPS * options.tray_step / UNIT_BYTES;
    size_t most = N_TRAY_BLOCK_MAX * options.tray_step;
    if (options.secure || n > layout.n_units / 4)
        return;
    tray_layout.step_shift = log2_floor(options.tray_step);
    tray_layout.n_units = n;
    tray_layout.largest = options.tray_max < most ? options.tray_max : most;
}

/* --- one tray --- */

/* In the entry of the unit where the step lies, which every free has read, if there is room. */
static uint8_t *length_at(const struct slab *slab, size_t step) {
    unsigned shift = UNIT_SHIFT - tray_layout.step_shift;
    size_t unit = step >> shift;
    size_t in_unit = step & (((size_t)1 << shift) - 1);
    size_t entry = unit < OWN_LENGTHS ? unit + OTHERS_LENGTHS : unit;
    size_t first = unit < OWN_LENGTHS ? 0 : LENGTHS;
    return (uint8_t *)&slab[entry].lengths[first + in_unit];
}

static size_t step_bytes(void) {
    return (size_t)1 << tray_layout.step_shift;
}

static size_t steps_for(size_t bytes) {
    return (bytes + step_bytes() - 1) >> tray_layout.step_shift;
}

/* The step that begins at `block`; N_STEPS if none does. */
static size_t step_at(const struct slab *slab, const void *block) {
    size_t offset = (size_t)((const char *)block - slab->start);
    return (offset & (step_bytes() - 1)) == 0 ? offset >> tray_layout.step_shift : N_STEPS;
}

size_t tray_block_bytes(const struct slab *slab, const void *block) {
    size_t at = step_at(slab, block);
    return at < N_STEPS ? (size_t)*length_at(slab, at) << tray_layout.step_shift : 0;
}

void tray_check(const struct slab *slab, const void *block) {
    if (tray_block_bytes(slab, block) > 0)
        return;
    size_t at = (size_t)((const char *)block - slab->start) >> tray_layout.step_shift;
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

static void list_insert(struct heap *heap, struct slab *slab) {
    size_t list = slab->capacity;
    slab->previous = NULL;
    slab->next = heap->trays[list];
    if (slab->next != NULL)
        slab->next->previous = slab;
    heap->trays[list] = slab;
    heap->tray_lists |= (uint64_t)1 << list;
}

static void list_remove(struct heap *heap, struct slab *slab) {
    size_t list = slab->capacity;
    if (heap->look_next == slab)
        heap->look_next = slab->next;
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

/* The longest run of free steps has become another one. */
static void set_longest(struct heap *heap, struct slab *slab, size_t longest) {
    if (longest >= N_TRAY_LISTS)
        longest = N_TRAY_LISTS - 1;
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

static void clear_lengths(struct slab *slab) {
    memset(&slab[OWN_LENGTHS].lengths[LENGTHS], 0, LENGTHS);
    for (size_t i = OTHERS_LENGTHS; i < tray_layout.n_units; i++)
        memset(slab[i].lengths, 0, sizeof slab[i].lengths);
}

static struct slab *new_tray(struct heap *heap) {
    struct slab *slab = supply_take(heap, tray_layout.n_units, false);
    if (slab == NULL)
        return NULL;
    slab->class = CLASS_TRAY;
    slab->block_bytes = (uint32_t)step_bytes();
    slab->capacity = N_TRAY_LISTS - 1;
    /* N_STEPS of them, but no constant that makes a page of those resident. */
    step_set all = steps(0, tray_layout.n_units << UNIT_SHIFT >> tray_layout.step_shift);
    slab[1].free_steps = all;
    slab[1].dirty_steps = slab->clean ? 0 : all;
    slab[2].aged_steps = 0;
    clear_lengths(slab);
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
    for (size_t i = 1; i < tray_layout.n_units; i++)
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

/* After steps around `at` became free. */
static void note_room(struct heap *heap, struct slab *slab, size_t at) {
    size_t run = run_around(slab[1].free_steps, at);
    if (run > slab->capacity)
        set_longest(heap, slab, run);
    supply_schedule_purge(heap);
}

/* --- blocks --- */

/* The tray with the least room that is enough for `n_room` steps; NULL if there is none. */
static struct slab *find_tray(const struct heap *heap, size_t n_room) {
    uint64_t lists = heap->tray_lists >> n_room << n_room;
    return lists != 0 ? heap->trays[__builtin_ctzll(lists)] : NULL;
}

void *tray_allocate(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero) {
    size_t n = steps_for(bytes);
    size_t n_apart = alignment > step_bytes() ? alignment >> tray_layout.step_shift : 1;
    /* Among so many free steps an aligned block fits for certain. */
    struct slab *slab = find_tray(heap, n + n_apart - 1);
    if (slab == NULL)
        slab = new_tray(heap);
    if (slab == NULL)
        return NULL;
    struct fit fit = first_fit(slab[1].free_steps, n);
    if (unlikely(n_apart > 1)) {
        fit.at = first_aligned_fit(slab[1].free_steps, n, n_apart);
        fit.longest = longest_run(slab[1].free_steps & ~steps(fit.at, n));
    }
    heap->n_empty_trays -= slab->asleep == 0;
    slab->asleep++;
    *is_zero = take_steps(slab, fit.at, n);
    *length_at(slab, fit.at) = (uint8_t)n;
    set_longest(heap, slab, fit.longest);
    return slab->start + fit.at * step_bytes();
}

void tray_free(struct heap *heap, struct slab *slab, void *block) {
    slab->countdown = -1;
    size_t at = step_at(slab, block);
    uint8_t *length = length_at(slab, at < N_STEPS ? at : 0);
    if (unlikely(at >= N_STEPS || *length == 0))
        tray_check(slab, block);
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
    if (bytes <= classes.largest || bytes > tray_layout.largest)
        return false;
    if (n > n_old) {
        step_set more = at + n <= N_STEPS ? steps(at + n_old, n - n_old) : 0;
        if (more == 0 || (slab[1].free_steps & more) != more)
            return false;
        take_steps(slab, at + n_old, n - n_old);
        set_longest(heap, slab, longest_run(slab[1].free_steps));
    }
    *length = (uint8_t)n;
    if (n < n_old) {
        give_steps(slab, at + n, n_old - n);
        note_room(heap, slab, at + n);
    }
    return true;
}

/* --- giving memory back --- */

/* Give back the pages [from, to) of steps; false if they are too few. */
static bool purge_run(struct slab *slab, size_t from, size_t to) {
    size_t bytes = (to - from) * step_bytes();
    if (bytes < options.purge_min)
        return false;
    if (os_purge(slab->start + from * step_bytes(), bytes, options.purge_how))
        slab[1].dirty_steps &= ~steps(from, to - from);
    return true;
}

/* The steps of the pages that are free, were so at the last look or, with `all`, need not have
 * been, and were written; a page has `n` steps, a power of two. */
static step_set purgeable(const struct slab *slab, size_t n, bool all) {
    step_set dirty = slab[1].dirty_steps;
    step_set too_new = all ? 0 : dirty & ~slab[2].aged_steps;
    step_set keep = ~slab[1].free_steps | too_new;
    for (size_t step = 1; step < n; step *= 2) { /* the first step speaks for its page */
        keep |= keep >> step;
        dirty |= dirty >> step;
    }
    return (dirty & ~keep & every(n)) * steps(0, n);
}

/* False if there was nothing to give back. */
static bool purge_one(struct slab *slab, bool all) {
    if (os_page_bytes() > UNIT_BYTES)
        return false; /* a tray need not begin with a page */
    size_t n = os_page_bytes() > step_bytes() ? os_page_bytes() / step_bytes() : 1;
    bool gave = false;
    step_set left = purgeable(slab, n, all);
    while (left != 0) {
        size_t from = lowest(left);
        size_t length = lowest(~(left >> from));
        gave = purge_run(slab, from, from + length) || gave;
        left &= ~steps(from, length);
    }
    slab[2].aged_steps = slab[1].dirty_steps;
    return gave;
}

void tray_purge(struct superblock *sb) {
    size_t n_left = options.purge_how != PURGE_NEVER ? sb->n_trays : 0;
    for (size_t i = sb->first_unit; n_left > 0 && i < sb->n_units; i++)
        if (sb->slab[i].n_units > 0 && sb->slab[i].class == CLASS_TRAY) {
            purge_one(&sb->slab[i], true);
            n_left--;
        }
}

/* The lists tell which trays have a run that is long enough.  A tray that is not looked at
 * keeps what had aged at its last look and was not used since. */
void tray_look_begin(struct heap *heap) {
    heap->look_next = NULL;
    heap->look_list = (options.purge_min + step_bytes() - 1) >> tray_layout.step_shift;
    if (heap->look_list >= N_TRAY_LISTS)
        heap->look_list = N_TRAY_LISTS - 1;
}

bool tray_look_step(struct heap *heap) {
    enum {
        N_LOOKS = 4
    };
    for (size_t i = 0; i < N_LOOKS; i++) {
        if (heap->look_next == NULL) {
            if (heap->look_list == N_TRAY_LISTS)
                return false;
            heap->look_next = heap->trays[heap->look_list++];
            continue;
        }
        struct slab *slab = heap->look_next;
        heap->look_next = slab->next;
        if (purge_one(slab, false))
            break;
    }
    return true;
}

/* --- walkers --- */

bool tray_is_valid(const struct slab *slab) {
    size_t n_blocks = 0;
    size_t n_used = 0;
    size_t run = 0;
    size_t longest = 0;
    for (size_t at = 0; at < N_STEPS;) {
        size_t length = *length_at(slab, at);
        bool is_free = slab[1].free_steps >> at & 1;
        if (is_free == (length > 0) || at + length > N_STEPS)
            return false;
        if (!is_free && (slab[1].free_steps & steps(at, length)) != 0)
            return false;
        n_blocks += !is_free;
        n_used += length;
        run = is_free ? run + 1 : 0;
        longest = run > longest ? run : longest;
        at += is_free ? 1 : length;
    }
    return slab->capacity == (longest < N_TRAY_LISTS ? longest : N_TRAY_LISTS - 1) &&
           slab->countdown == -1 && slab->asleep == n_blocks && slab->carved == n_used &&
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
            if (slab->class != CLASS_TRAY || slab->capacity != list)
                return false;
            n++;
            n_empty += slab_used(slab) == 0;
        }
    }
    return n == heap->n_trays && n_empty == heap->n_empty_trays;
}
