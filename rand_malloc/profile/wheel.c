/* wheel.c - see wheel.h. */
#include "wheel.h"

#include "memory.h"

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

int wheel_push_list(struct wheel *wheel, uint32_t *list, struct slot *slots) {
    for (uint32_t slot = take_list(list, slots); slot != NO_SLOT; slot = slots[slot].next)
        if (!pending_push(&wheel->due, slots[slot].due, slot))
            return 0;
    return 1;
}

void wheel_begin_page(struct wheel *wheel, struct slot *slots) {
    uint32_t next;
    uint32_t slot = take_list(&wheel->far[wheel->tick >> WHEEL_PAGE_BITS], slots);
    for (; slot != NO_SLOT; slot = next) {
        next = slots[slot].next;
        uint64_t tick = slots[slot].due >> WHEEL_TICK_BITS;
        wheel_put_in_list(&wheel->near[tick % WHEEL_PAGE_TICKS], slots, slot);
    }
}

int wheel_end(struct wheel *wheel, struct slot *slots) {
    wheel->tick = UINT64_MAX; /* what comes now does not wait */
    return wheel_push_list(wheel, &wheel->far[wheel->n_pages], slots);
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
    wheel->near = map_lists(WHEEL_PAGE_TICKS);
    wheel->far = map_lists(wheel->n_pages + 1);
    if (wheel->near != NULL && wheel->far != NULL)
        return 1;
    wheel_close(wheel);
    return 0;
}

void wheel_close(struct wheel *wheel) {
    pending_release(&wheel->due);
    memory_unmap(wheel->near, WHEEL_PAGE_TICKS * sizeof *wheel->near);
    memory_unmap(wheel->far, (wheel->n_pages + 1) * sizeof *wheel->far);
    *wheel = (struct wheel){.n_ticks = 0};
}
