/* wheel.h - lives that wait for the due moment of their next step: a timing wheel.
 *
 * A moment is a key: the tick in its upper 32 bits, what orders the steps of a tick in the
 * lower ones.  Ticks are cut into pages.  What waits for a later page lies in blocks of that
 * page, in the order in which it came, and is dealt out to the ticks when the page begins; what
 * comes for a tick of the page that runs is linked from slot to slot (Varghese and Lauck, SOSP
 * 1987, scheme 7).  Only what is due is put in order: a burst by a radix sort, anything else in
 * a heap that stays short.  Slots of lives that wait long are nowhere near: what a page needs is
 * read from its blocks alone.
 *
 * Steps with equal keys leave in the order in which they came.
 * Cost: O(1) for a step.
 */
#ifndef RAND_MALLOC_PROFILE_WHEEL_H
#define RAND_MALLOC_PROFILE_WHEEL_H

#include "pending.h"
#include "slots.h"

#define NO_KEY UINT64_MAX /* no moment: its tick and window would lie behind any end */

enum {
    WHEEL_TICK_BITS = 32, /* of a key */
    WHEEL_PAGE_BITS = 12, /* ticks of a page, base-2 logarithm */
    WHEEL_PAGE_TICKS = 1 << WHEEL_PAGE_BITS,
    WHEEL_BLOCK_ENTRIES = 63,
    WHEEL_AHEAD = 8 /* entries or ticks between asking for a slot and using it */
};

/* Lives that wait for one page, 1 KiB. */
struct wheel_block {
    uint32_t next; /* block of the same page or free one, or NO_BLOCK */
    uint32_t n;
    uint64_t unused;
    struct pending_entry entries[WHEEL_BLOCK_ENTRIES];
};

struct wheel_page {
    uint32_t first; /* block, or NO_BLOCK */
    uint32_t last;
};

/* Entries in order. */
struct wheel_list {
    struct pending_entry *entries;
    size_t n;
    size_t capacity;
};

struct wheel {
    struct pending due;      /* the steps of this tick and before it, but for a burst */
    struct wheel_list run;   /* what is left of a burst, in order, from run_next on */
    struct wheel_list room;  /* to sort in */
    struct wheel_list dealt; /* of this page by tick, those that came before it began */
    uint32_t *ends;          /* [WHEEL_PAGE_TICKS] in dealt, of a tick; begins are ends before */
    uint32_t *near;          /* [WHEEL_PAGE_TICKS] slot that came last since, or NO_SLOT */
    struct wheel_page *far;  /* [n_pages + 1]; the last is for ticks behind the end */
    struct wheel_block *blocks;
    size_t block_capacity;
    uint32_t n_blocks;
    uint32_t free_block; /* first of the list, or NO_BLOCK */
    size_t run_next;
    uint64_t tick; /* now */
    uint64_t n_ticks;
    uint64_t n_pages;
};

/* Begins at tick 0, for ticks up to n_ticks; false when memory is short, as of all below. */
int wheel_open(struct wheel *wheel, uint64_t n_ticks);
void wheel_close(struct wheel *wheel);

/* Parts of the functions below. */
int wheel_push_far(struct wheel *wheel, uint64_t page, uint64_t key, uint32_t slot);
int wheel_begin_page(struct wheel *wheel);
int wheel_make_due(struct wheel *wheel, struct slot *slots);

/* The slot's life waits until slots[slot].due, which may have passed. */
static inline int wheel_push(struct wheel *wheel, struct slot *slots, uint32_t slot) {
    uint64_t key = slots[slot].due;
    uint64_t tick = key >> WHEEL_TICK_BITS;
    if (tick <= wheel->tick)
        return pending_push(&wheel->due, key, slot);
    if (tick > wheel->n_ticks)
        return wheel_push_far(wheel, wheel->n_pages, key, slot);
    if (tick >> WHEEL_PAGE_BITS != wheel->tick >> WHEEL_PAGE_BITS)
        return wheel_push_far(wheel, tick >> WHEEL_PAGE_BITS, key, slot);
    slots[slot].next = wheel->near[tick % WHEEL_PAGE_TICKS];
    wheel->near[tick % WHEEL_PAGE_TICKS] = slot;
    return 1;
}

/* The next tick begins; it is at most n_ticks. */
static inline int wheel_advance(struct wheel *wheel, struct slot *slots) {
    uint32_t at = (uint32_t)(++wheel->tick % WHEEL_PAGE_TICKS);
    if (at == 0 && !wheel_begin_page(wheel))
        return 0;
    uint32_t begin = at > 0 ? wheel->ends[at - 1] : 0;
    if (begin + WHEEL_AHEAD < wheel->dealt.n)
        __builtin_prefetch(&slots[wheel->dealt.entries[begin + WHEEL_AHEAD].slot], 1);
    return begin == wheel->ends[at] && wheel->near[at] == NO_SLOT ? 1
                                                                  : wheel_make_due(wheel, slots);
}

/* The key of the step that is due first, or NO_KEY. */
static inline uint64_t wheel_first_key(const struct wheel *wheel) {
    uint64_t key = wheel->due.n > 0 ? wheel->due.entries[0].key : NO_KEY;
    if (wheel->run_next < wheel->run.n && wheel->run.entries[wheel->run_next].key < key)
        key = wheel->run.entries[wheel->run_next].key;
    return key;
}

/* Removes the step that is due first and returns its slot; there must be one.  Of equal keys
 * those of the burst came first: it was there when its tick began. */
static inline uint32_t wheel_pop(struct wheel *wheel, const struct slot *slots) {
    if (wheel->run_next == wheel->run.n)
        return pending_pop(&wheel->due);
    const struct pending_entry *run = wheel->run.entries + wheel->run_next;
    if (wheel->due.n > 0 && wheel->due.entries[0].key < run->key)
        return pending_pop(&wheel->due);
    if (wheel->run_next + WHEEL_AHEAD < wheel->run.n)
        __builtin_prefetch(&slots[run[WHEEL_AHEAD].slot], 1);
    wheel->run_next++;
    return run->slot;
}

/* Behind the last tick everything is due, what waits and what still comes. */
int wheel_end(struct wheel *wheel);

#endif
