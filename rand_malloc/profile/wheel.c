/* wheel.c - see wheel.h. */
#include "wheel.h"

#include "memory.h"

enum {
    DIGIT_BITS = 8, /* of the radix sort */
    DIGIT_MASK = (1 << DIGIT_BITS) - 1,
    LEAST_BURST = 48 /* fewer are quicker in a heap */
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

/* ---- bursts ---- */

static int grow_run(struct wheel *wheel, size_t n) {
    size_t capacity = 2 * n;
    if (n <= wheel->run_capacity)
        return 1;
    memory_unmap(wheel->run, wheel->run_capacity * sizeof *wheel->run);
    memory_unmap(wheel->room, wheel->run_capacity * sizeof *wheel->run);
    wheel->run = memory_map(capacity * sizeof *wheel->run);
    wheel->room = memory_map(capacity * sizeof *wheel->run);
    wheel->run_capacity = capacity;
    return wheel->run != NULL && wheel->room != NULL;
}

/* One pass of the radix sort, by the digit at the shift; stable. */
static void sort_by_digit(struct wheel *wheel, size_t n, unsigned shift) {
    size_t begins[1 << DIGIT_BITS] = {0};
    size_t before = 0;
    for (size_t i = 0; i < n; i++)
        begins[wheel->run[i].key >> shift & DIGIT_MASK]++;
    for (size_t digit = 0; digit <= DIGIT_MASK; digit++) {
        size_t count = begins[digit];
        begins[digit] = before;
        before += count;
    }
    for (size_t i = 0; i < n; i++)
        wheel->room[begins[wheel->run[i].key >> shift & DIGIT_MASK]++] = wheel->run[i];
    struct pending_entry *sorted = wheel->room;
    wheel->room = wheel->run;
    wheel->run = sorted;
}

/* The list, which has n slots, becomes the run. */
static int sort_list(struct wheel *wheel, uint32_t first, size_t n, const struct slot *slots) {
    uint64_t differing = 0; /* bits in which keys do */
    size_t i = 0;
    if (!grow_run(wheel, n))
        return 0;
    for (uint32_t slot = first; slot != NO_SLOT; slot = slots[slot].next) {
        wheel->run[i++] = (struct pending_entry){.key = slots[slot].due, .slot = slot};
        differing |= slots[slot].due ^ slots[first].due;
    }
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS)
        if ((differing >> shift & DIGIT_MASK) != 0)
            sort_by_digit(wheel, n, shift);
    wheel->run_next = 0;
    wheel->run_end = n;
    return 1;
}

int wheel_push_list(struct wheel *wheel, uint32_t *list, struct slot *slots) {
    uint32_t first = take_list(list, slots);
    size_t n = 0;
    for (uint32_t slot = first; slot != NO_SLOT; slot = slots[slot].next)
        n++;
    if (n >= LEAST_BURST && wheel->run_next == wheel->run_end && wheel->due.n == 0)
        return sort_list(wheel, first, n, slots);
    for (uint32_t slot = first; slot != NO_SLOT; slot = slots[slot].next)
        if (!pending_push(&wheel->due, slots[slot].due, slot))
            return 0;
    return 1;
}

/* ---- pages ---- */

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
    memory_unmap(wheel->run, wheel->run_capacity * sizeof *wheel->run);
    memory_unmap(wheel->room, wheel->run_capacity * sizeof *wheel->run);
    memory_unmap(wheel->near, WHEEL_PAGE_TICKS * sizeof *wheel->near);
    memory_unmap(wheel->far, (wheel->n_pages + 1) * sizeof *wheel->far);
    *wheel = (struct wheel){.n_ticks = 0};
}
