/* wheel.h - lives that wait for the due moment of their next step: a timing wheel.
 *
 * A moment is a key: the tick in its upper 32 bits, what orders the steps of a tick in the
 * lower ones.  Every tick of the page of ticks that runs has a list of its own, every later
 * page one list, which is dealt out when the page begins (Varghese and Lauck, SOSP 1987,
 * scheme 7).  A life waits for one step at a time, so its slot is the link.  Only what is due
 * is put in order: a burst by a radix sort, anything else in a heap that stays short.
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
    WHEEL_PREFETCHED_TICKS = 4
};

struct wheel {
    struct pending due;         /* the steps of this tick and before it, but for a burst */
    struct pending_entry *run;  /* what is left of a burst, in order */
    struct pending_entry *room; /* to sort in */
    size_t run_next, run_end;   /* in run */
    size_t run_capacity;        /* of both */
    uint32_t *near;             /* by tick of this page, the one that came last; or NO_SLOT */
    uint32_t *far;              /* by page, likewise; the last is for ticks behind the end */
    uint64_t tick;              /* now */
    uint64_t n_ticks;
    uint64_t n_pages;
};

/* Begins at tick 0, for ticks up to n_ticks; false when memory is short, as of all below. */
int wheel_open(struct wheel *wheel, uint64_t n_ticks);
void wheel_close(struct wheel *wheel);

/* Begin the page of the tick; make the lives of a list due. */
void wheel_begin_page(struct wheel *wheel, struct slot *slots);
int wheel_push_list(struct wheel *wheel, uint32_t *list, struct slot *slots);

static inline void wheel_put_in_list(uint32_t *list, struct slot *slots, uint32_t slot) {
    slots[slot].next = *list;
    *list = slot;
}

/* The slot's life waits until slots[slot].due, which may have passed. */
static inline int wheel_push(struct wheel *wheel, struct slot *slots, uint32_t slot) {
    uint64_t tick = slots[slot].due >> WHEEL_TICK_BITS;
    if (tick <= wheel->tick)
        return pending_push(&wheel->due, slots[slot].due, slot);
    if (tick > wheel->n_ticks)
        wheel_put_in_list(&wheel->far[wheel->n_pages], slots, slot);
    else if (tick >> WHEEL_PAGE_BITS == wheel->tick >> WHEEL_PAGE_BITS)
        wheel_put_in_list(&wheel->near[tick % WHEEL_PAGE_TICKS], slots, slot);
    else
        wheel_put_in_list(&wheel->far[tick >> WHEEL_PAGE_BITS], slots, slot);
    return 1;
}

/* The next tick begins; it is at most n_ticks. */
static inline int wheel_advance(struct wheel *wheel, struct slot *slots) {
    wheel->tick++;
    if (wheel->tick % WHEEL_PAGE_TICKS == 0)
        wheel_begin_page(wheel, slots);
    uint32_t soon = wheel->near[(wheel->tick + WHEEL_PREFETCHED_TICKS) % WHEEL_PAGE_TICKS];
    if (soon != NO_SLOT)
        __builtin_prefetch(&slots[soon], 1);
    uint32_t *list = &wheel->near[wheel->tick % WHEEL_PAGE_TICKS];
    uint32_t slot = *list;
    if (slot == NO_SLOT)
        return 1;
    if (slots[slot].next != NO_SLOT)
        return wheel_push_list(wheel, list, slots);
    *list = NO_SLOT;
    return pending_push(&wheel->due, slots[slot].due, slot);
}

/* The key of the step that is due first, or NO_KEY. */
static inline uint64_t wheel_first_key(const struct wheel *wheel) {
    uint64_t key = wheel->due.n > 0 ? wheel->due.entries[0].key : NO_KEY;
    if (wheel->run_next < wheel->run_end && wheel->run[wheel->run_next].key < key)
        key = wheel->run[wheel->run_next].key;
    return key;
}

/* Removes the step that is due first and returns its slot; there must be one.  Of equal keys
 * those of the burst came first: it was there when its tick began. */
static inline uint32_t wheel_pop(struct wheel *wheel) {
    if (wheel->run_next < wheel->run_end &&
        (wheel->due.n == 0 || wheel->run[wheel->run_next].key <= wheel->due.entries[0].key))
        return wheel->run[wheel->run_next++].slot;
    return pending_pop(&wheel->due);
}

/* Behind the last tick everything is due, what waits and what still comes. */
int wheel_end(struct wheel *wheel, struct slot *slots);

#endif
