/* trays.c - a heap's trays: which one a block comes from; see tray.h for what one is.
 *
 * Inside a tray: address-ordered first fit, run by run (see step_set.h).  Among trays: lists by the
 * longest free run; the tray with the least sufficient one comes first, so that others can become
 * empty.  Hence O(1).
 */
#include "heap/trays.h"

#include <string.h>

#include "base/options.h"
#include "heap/kept.h"
#include "heap/supply.h"
#include "memory/step_set.h"

enum {
    LINKS = 2 /* the entry with a tray's neighbours */
};

_Static_assert(2 * N_TRAY_BLOCK_MAX - 1 < N_TRAY_LISTS, "a list for every aligned request");

static void list_insert(struct heap *heap, struct slab *slab) {
    size_t list = slab->capacity;
    struct slab *next = heap->trays[list];
    slab[LINKS].previous_tray = NULL;
    slab[LINKS].next_tray = next;
    if (next != NULL)
        next[LINKS].previous_tray = slab;
    heap->trays[list] = slab;
    heap->tray_lists |= (uint64_t)1 << list;
}

static void list_remove(struct heap *heap, struct slab *slab) {
    size_t list = slab->capacity;
    struct slab *next = slab[LINKS].next_tray;
    struct slab *previous = slab[LINKS].previous_tray;
    if (heap->look_next == slab)
        heap->look_next = next;
    if (next != NULL)
        next[LINKS].previous_tray = previous;
    if (previous != NULL) {
        previous[LINKS].next_tray = next;
    } else {
        heap->trays[list] = next;
        if (next == NULL)
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

void trays_link(struct heap *heap, struct slab *slab) {
    heap->n_trays++;
    heap->n_empty_trays += slab->asleep == 0;
    list_insert(heap, slab);
}

void trays_unlink(struct heap *heap, struct slab *slab) {
    heap->n_trays--;
    heap->n_empty_trays -= slab->asleep == 0;
    list_remove(heap, slab);
}

void trays_add(struct heap *heap, struct slab *slab) {
    slab->class = CLASS_TRAY;
    slab->block_bytes = (uint32_t)tray_step_bytes();
    slab->capacity = N_TRAY_LISTS - 1;
    /* N_STEPS of them, but no constant that makes a page of those resident. */
    step_set all = steps(0, tray_layout.n_units << UNIT_SHIFT >> tray_layout.step_shift);
    slab[1].free_steps = all;
    slab[1].dirty_steps = slab->clean ? 0 : all;
    slab[2].aged_steps = 0;
    for (size_t i = 0; i < tray_layout.n_units; i++)
        memset(slab[i].lengths, 0, sizeof slab[i].lengths);
    superblock_of((uintptr_t)slab)->n_trays++;
    trays_link(heap, slab);
}

/* Give the units of an empty tray back to the supply. */
static void release(struct heap *heap, struct slab *slab) {
    ASSERT(slab->asleep == 0);
    trays_unlink(heap, slab);
    superblock_of((uintptr_t)slab)->n_trays--;
    step_set dirty = slab[1].dirty_steps;
    slab->clean = true; /* but for what lies before `carved` */
    slab->carved = dirty != 0 ? (uint32_t)highest(dirty) + 1 : 0;
    slab[1].dirty_steps = 0; /* where a free unit has its countdown */
    slab[2].aged_steps = 0;
    supply_give(heap, slab);
}

void trays_trim(struct heap *heap) {
    struct slab *slab = heap->trays[N_TRAY_LISTS - 1];
    for (struct slab *next; heap->n_empty_trays > 0 && slab != NULL; slab = next) {
        next = slab[LINKS].next_tray;
        if (slab->asleep == 0)
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

void *trays_allocate(struct heap *heap, size_t bytes, size_t alignment, bool *is_zero) {
    size_t n = tray_steps_for(bytes);
    size_t n_apart = alignment > tray_step_bytes() ? alignment >> tray_layout.step_shift : 1;
    /* Among so many free steps an aligned block fits for certain. */
    struct slab *slab = find_tray(heap, n + n_apart - 1);
    if (slab == NULL)
        return NULL;
    struct fit fit = first_fit(slab[1].free_steps, n);
    if (unlikely(n_apart > 1)) {
        fit.at = first_aligned_fit(slab[1].free_steps, n, n_apart);
        fit.longest = longest_run(slab[1].free_steps & ~steps(fit.at, n));
    }
    heap->n_empty_trays -= slab->asleep == 0;
    slab->asleep++;
    *is_zero = tray_take_steps(slab, fit.at, n);
    *tray_length_at(slab, fit.at) = (uint8_t)n;
    set_longest(heap, slab, fit.longest);
    return slab->start + fit.at * tray_step_bytes();
}

static void give_back(struct heap *heap, struct slab *slab, size_t at, uint8_t *length) {
    tray_give_steps(slab, at, *length);
    *length = 0;
    slab->asleep--;
    note_room(heap, slab, at);
    if (slab->asleep > 0)
        return;
    heap->n_empty_trays++;
    if (heap->n_empty_trays > 1 || options.empty_slabs == 0)
        release(heap, slab);
}

void trays_free(struct heap *heap, struct slab *slab, void *block) {
    tray_check(slab, block);
    size_t at = tray_step_at(slab, block);
    give_back(heap, slab, at, tray_length_at(slab, at));
}

void trays_give_back(struct heap *heap, void *block) {
    struct slab *slab = slab_of((uintptr_t)block);
    size_t at = tray_step_at(slab, block);
    give_back(heap, slab, at, tray_length_at(slab, at));
}

bool trays_resize(struct heap *heap, struct slab *slab, void *block, size_t bytes) {
    size_t at = tray_step_at(slab, block);
    uint8_t *length = tray_length_at(slab, at);
    size_t n_old = *length;
    size_t n = tray_steps_for(bytes);
    if (bytes <= classes.largest || bytes > tray_layout.largest)
        return false;
    if (n > n_old) {
        step_set more = at + n <= N_STEPS ? steps(at + n_old, n - n_old) : 0;
        if (more == 0 || (slab[1].free_steps & more) != more)
            return false;
        tray_take_steps(slab, at + n_old, n - n_old);
        set_longest(heap, slab, longest_run(slab[1].free_steps));
    }
    *length = (uint8_t)n;
    if (n < n_old) {
        tray_give_steps(slab, at + n, n_old - n);
        note_room(heap, slab, at + n);
    }
    return true;
}

/* The lists hold the trays that have a run that is long enough.  A tray that is not looked at
 * keeps what had aged at its last look and was not used since. */
void trays_look_begin(struct heap *heap) {
    heap->look_next = NULL;
    heap->look_list = (options.purge_min + tray_step_bytes() - 1) >> tray_layout.step_shift;
    if (heap->look_list >= N_TRAY_LISTS)
        heap->look_list = N_TRAY_LISTS - 1;
}

void trays_look_none(struct heap *heap) {
    heap->look_next = NULL;
    heap->look_list = N_TRAY_LISTS;
}

bool trays_look_step(struct heap *heap) {
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
        heap->look_next = slab[LINKS].next_tray;
        if (tray_purge(slab, false))
            break;
    }
    return true;
}

/* --- walker --- */

bool trays_are_valid(const struct heap *heap) {
    size_t n = 0;
    size_t n_empty = 0;
    for (size_t list = 0; list < N_TRAY_LISTS; list++) {
        if ((heap->trays[list] != NULL) != (heap->tray_lists >> list & 1))
            return false;
        for (const struct slab *slab = heap->trays[list]; slab != NULL;
             slab = slab[LINKS].next_tray) {
            if (slab->class != CLASS_TRAY || slab->capacity != list)
                return false;
            n++;
            n_empty += slab->asleep == 0;
        }
    }
    return n == heap->n_trays && n_empty == heap->n_empty_trays;
}
