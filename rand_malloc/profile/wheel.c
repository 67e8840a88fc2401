/* wheel.c - see wheel.h. */
#include "wheel.h"

#include "memory.h"

enum {
    PAGE_TICKS = 1 << WHEEL_PAGE_BITS
};

/* Empties a list and returns it in the order in which its slots came. */
static uint32_t take_list(uint32_t *list, struct slot *slots) {
    uint32_t first = NO_SLOT;
    for (uint32_t slot = *list; slot != NO_SLOT;) {
        uint32_t next = slots[slot].next;
        slots[slot].next = first;
        first = slot;
        slot = next;
    }
    *list = NO_SLOT;
    return first;
}

static void put_in_list(uint32_t *list, struct slot *slots, uint32_t slot) {
    slots[slot].next = *list;
    *list = slot;
}

static int push_list(struct wheel *wheel, uint32_t *list, struct slot *slots) {
    for (uint32_t slot = take_list(list, slots); slot != NO_SLOT; slot = slots[slot].next)
        if (!pending_push(&wheel->due, slots[slot].due, slot))
            return 0;
    return 1;
}

int wheel_push(struct wheel *wheel, struct slot *slots, uint32_t slot) {
    uint64_t tick = slots[slot].due >> WHEEL_TICK_BITS;
    if (tick <= wheel->tick)
        return pending_push(&wheel->due, slots[slot].due, slot);
    if (tick > wheel->n_ticks)
        put_in_list(&wheel->far[wheel->n_pages], slots, slot);
    else if (tick >> WHEEL_PAGE_BITS == wheel->tick >> WHEEL_PAGE_BITS)
        put_in_list(&wheel->near[tick % PAGE_TICKS], slots, slot);
    else
        put_in_list(&wheel->far[tick >> WHEEL_PAGE_BITS], slots, slot);
    return 1;
}

static void begin_page(struct wheel *wheel, struct slot *slots) {
    uint32_t next;
    uint32_t slot = take_list(&wheel->far[wheel->tick >> WHEEL_PAGE_BITS], slots);
    for (; slot != NO_SLOT; slot = next) {
        next = slots[slot].next;
        uint64_t tick = slots[slot].due >> WHEEL_TICK_BITS;
        put_in_list(&wheel->near[tick % PAGE_TICKS], slots, slot);
    }
}

int wheel_advance(struct wheel *wheel, struct slot *slots) {
    wheel->tick++;
    if (wheel->tick % PAGE_TICKS == 0)
        begin_page(wheel, slots);
    return push_list(wheel, &wheel->near[wheel->tick % PAGE_TICKS], slots);
}

int wheel_end(struct wheel *wheel, struct slot *slots) {
    wheel->tick = UINT64_MAX; /* what comes now does not wait */
    return push_list(wheel, &wheel->far[wheel->n_pages], slots);
}

/* ---- opening ---- */

static uint32_t *map_lists(uint64_t n) {
    uint32_t *lists = memory_map((size_t)n * sizeof *lists);
    for (uint64_t i = 0; lists != NULL && i < n; i++)
        lists[i] = NO_SLOT;
    return lists;
}

int wheel_open(struct wheel *wheel, uint64_t n_ticks) {
    *wheel = (struct wheel){.n_ticks = n_ticks, .n_pages = (n_ticks >> WHEEL_PAGE_BITS) + 1};
    wheel->near = map_lists(PAGE_TICKS);
    wheel->far = map_lists(wheel->n_pages + 1);
    if (wheel->near != NULL && wheel->far != NULL)
        return 1;
    wheel_close(wheel);
    return 0;
}

void wheel_close(struct wheel *wheel) {
    pending_release(&wheel->due);
    memory_unmap(wheel->near, PAGE_TICKS * sizeof *wheel->near);
    memory_unmap(wheel->far, (wheel->n_pages + 1) * sizeof *wheel->far);
    *wheel = (struct wheel){.n_ticks = 0};
}
