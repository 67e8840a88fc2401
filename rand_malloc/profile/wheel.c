/* wheel.c - see wheel.h. */
#include "wheel.h"

#include "memory.h"

#define NO_BLOCK UINT32_MAX

enum {
    INITIAL_ENTRIES = 4096,
    INITIAL_BLOCKS = 256,
    DIGIT_BITS = 8, /* of the radix sort */
    DIGIT_MASK = (1 << DIGIT_BITS) - 1,
    LEAST_BURST = 48 /* fewer are quicker in a heap */
};

_Static_assert(sizeof(struct wheel_block) == 1024, "whole cache lines");

/* ---- lists ---- */

/* Empties the list and makes room for n entries. */
static int begin_list(struct wheel_list *list, size_t n) {
    list->n = 0;
    if (n <= list->capacity)
        return 1;
    size_t capacity = list->capacity > 0 ? 2 * list->capacity : INITIAL_ENTRIES;
    while (capacity < n)
        capacity *= 2;
    memory_unmap(list->entries, list->capacity * sizeof *list->entries);
    list->entries = memory_map(capacity * sizeof *list->entries);
    list->capacity = list->entries != NULL ? capacity : 0;
    return list->entries != NULL;
}

static void release_list(struct wheel_list *list) {
    memory_unmap(list->entries, list->capacity * sizeof *list->entries);
}

/* ---- bursts ---- */

/* One pass of the radix sort of the run, by the digit at the shift; stable. */
static void sort_by_digit(struct wheel *wheel, unsigned shift) {
    size_t begins[1 << DIGIT_BITS] = {0};
    const struct pending_entry *entries = wheel->run.entries;
    size_t before = 0;
    for (size_t i = 0; i < wheel->run.n; i++)
        begins[entries[i].key >> shift & DIGIT_MASK]++;
    for (size_t digit = 0; digit <= DIGIT_MASK; digit++) {
        size_t count = begins[digit];
        begins[digit] = before;
        before += count;
    }
    for (size_t i = 0; i < wheel->run.n; i++)
        wheel->room.entries[begins[entries[i].key >> shift & DIGIT_MASK]++] = entries[i];
    struct wheel_list sorted = wheel->room;
    sorted.n = wheel->run.n;
    wheel->room = wheel->run;
    wheel->run = sorted;
}

static int sort_run(struct wheel *wheel) {
    uint64_t differing = 0; /* bits in which keys do */
    if (!begin_list(&wheel->room, wheel->run.n))
        return 0;
    for (size_t i = 1; i < wheel->run.n; i++)
        differing |= wheel->run.entries[i].key ^ wheel->run.entries[0].key;
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS)
        if ((differing >> shift & DIGIT_MASK) != 0)
            sort_by_digit(wheel, shift);
    return 1;
}

/* Turns the linked list round, so that it is in the order in which its slots came, and counts. */
static uint32_t take_near(uint32_t *near, struct slot *slots, size_t *n) {
    uint32_t first = NO_SLOT;
    *n = 0;
    for (uint32_t slot = *near; slot != NO_SLOT; ++*n) {
        uint32_t next = slots[slot].next;
        slots[slot].next = first;
        first = slot;
        slot = next;
    }
    *near = NO_SLOT;
    return first;
}

/* What was dealt to the tick came before what is linked. */
int wheel_make_due(struct wheel *wheel, struct slot *slots) {
    uint32_t at = (uint32_t)(wheel->tick % WHEEL_PAGE_TICKS);
    uint32_t begin = at > 0 ? wheel->ends[at - 1] : 0;
    size_t n;
    uint32_t slot = take_near(&wheel->near[at], slots, &n);
    n += wheel->ends[at] - begin;
    if (n < LEAST_BURST || wheel->run_next < wheel->run.n || wheel->due.n > 0) {
        int is_enough = 1;
        for (uint32_t i = begin; i < wheel->ends[at]; i++)
            is_enough &= pending_push(&wheel->due, wheel->dealt.entries[i].key,
                                      wheel->dealt.entries[i].slot);
        for (; slot != NO_SLOT; slot = slots[slot].next)
            is_enough &= pending_push(&wheel->due, slots[slot].due, slot);
        return is_enough;
    }
    wheel->run_next = 0;
    if (!begin_list(&wheel->run, n))
        return 0;
    for (uint32_t i = begin; i < wheel->ends[at]; i++)
        wheel->run.entries[wheel->run.n++] = wheel->dealt.entries[i];
    for (; slot != NO_SLOT; slot = slots[slot].next)
        wheel->run.entries[wheel->run.n++] =
            (struct pending_entry){.key = slots[slot].due, .slot = slot};
    return sort_run(wheel);
}

/* ---- pages ---- */

/* A block without entries, or NO_BLOCK when memory is short. */
static uint32_t take_block(struct wheel *wheel) {
    uint32_t block = wheel->free_block;
    if (block != NO_BLOCK) {
        wheel->free_block = wheel->blocks[block].next;
    } else {
        if (wheel->n_blocks == wheel->block_capacity) {
            size_t old = wheel->block_capacity * sizeof *wheel->blocks;
            size_t capacity = old > 0 ? 2 * wheel->block_capacity : INITIAL_BLOCKS;
            struct wheel_block *blocks =
                memory_grow(wheel->blocks, old, capacity * sizeof *wheel->blocks);
            if (blocks == NULL)
                return NO_BLOCK;
            wheel->blocks = blocks;
            wheel->block_capacity = capacity;
        }
        block = wheel->n_blocks++;
    }
    wheel->blocks[block].next = NO_BLOCK;
    wheel->blocks[block].n = 0;
    return block;
}

int wheel_push_far(struct wheel *wheel, uint64_t page_number, uint64_t key, uint32_t slot) {
    struct wheel_page *page = &wheel->far[page_number];
    if (page->last == NO_BLOCK || wheel->blocks[page->last].n == WHEEL_BLOCK_ENTRIES) {
        uint32_t block = take_block(wheel);
        if (block == NO_BLOCK)
            return 0;
        *(page->last == NO_BLOCK ? &page->first : &wheel->blocks[page->last].next) = block;
        page->last = block;
    }
    struct wheel_block *block = &wheel->blocks[page->last];
    block->entries[block->n++] = (struct pending_entry){.key = key, .slot = slot};
    return 1;
}

/* Moves all entries of a page into the list. */
static int take_page(struct wheel *wheel, struct wheel_page *page, struct wheel_list *list) {
    size_t n = 0;
    for (uint32_t i = page->first; i != NO_BLOCK; i = wheel->blocks[i].next)
        n += wheel->blocks[i].n;
    if (!begin_list(list, n))
        return 0;
    for (uint32_t i = page->first; i != NO_BLOCK;) {
        struct wheel_block *block = &wheel->blocks[i];
        uint32_t next = block->next;
        for (uint32_t k = 0; k < block->n; k++)
            list->entries[list->n++] = block->entries[k];
        block->next = wheel->free_block;
        wheel->free_block = i;
        i = next;
    }
    *page = (struct wheel_page){NO_BLOCK, NO_BLOCK};
    return 1;
}

static uint32_t tick_in_page(const struct pending_entry *entry) {
    return (uint32_t)(entry->key >> WHEEL_TICK_BITS) % WHEEL_PAGE_TICKS;
}

/* Deals what waits for the page out to its ticks: a counting sort. */
int wheel_begin_page(struct wheel *wheel) {
    struct wheel_list *room = &wheel->room;
    uint32_t before = 0;
    if (!take_page(wheel, &wheel->far[wheel->tick >> WHEEL_PAGE_BITS], room) ||
        !begin_list(&wheel->dealt, room->n))
        return 0;
    for (uint32_t at = 0; at < WHEEL_PAGE_TICKS; at++)
        wheel->ends[at] = 0;
    for (size_t i = 0; i < room->n; i++)
        wheel->ends[tick_in_page(&room->entries[i])]++;
    for (uint32_t at = 0; at < WHEEL_PAGE_TICKS; at++) { /* begins at first */
        uint32_t count = wheel->ends[at];
        wheel->ends[at] = before;
        before += count;
    }
    for (size_t i = 0; i < room->n; i++)
        wheel->dealt.entries[wheel->ends[tick_in_page(&room->entries[i])]++] = room->entries[i];
    wheel->dealt.n = room->n;
    return 1;
}

int wheel_end(struct wheel *wheel) {
    struct wheel_page *page = &wheel->far[wheel->n_pages];
    wheel->tick = UINT64_MAX; /* what comes now does not wait */
    if (wheel->run_next == wheel->run.n && wheel->due.n == 0) {
        wheel->run_next = 0;
        return take_page(wheel, page, &wheel->run) && sort_run(wheel);
    }
    if (!take_page(wheel, page, &wheel->room))
        return 0;
    for (size_t i = 0; i < wheel->room.n; i++)
        if (!pending_push(&wheel->due, wheel->room.entries[i].key, wheel->room.entries[i].slot))
            return 0;
    return 1;
}

/* ---- opening ---- */

int wheel_open(struct wheel *wheel, uint64_t n_ticks) {
    *wheel = (struct wheel){
        .n_ticks = n_ticks, .n_pages = (n_ticks >> WHEEL_PAGE_BITS) + 1, .free_block = NO_BLOCK};
    wheel->ends = memory_map(WHEEL_PAGE_TICKS * sizeof *wheel->ends);
    wheel->near = memory_map(WHEEL_PAGE_TICKS * sizeof *wheel->near);
    wheel->far = memory_map((size_t)(wheel->n_pages + 1) * sizeof *wheel->far);
    if (wheel->ends == NULL || wheel->near == NULL || wheel->far == NULL) {
        wheel_close(wheel);
        return 0;
    }
    for (uint32_t at = 0; at < WHEEL_PAGE_TICKS; at++)
        wheel->near[at] = NO_SLOT;
    for (uint64_t page = 0; page <= wheel->n_pages; page++)
        wheel->far[page] = (struct wheel_page){NO_BLOCK, NO_BLOCK};
    return 1;
}

void wheel_close(struct wheel *wheel) {
    pending_release(&wheel->due);
    release_list(&wheel->run);
    release_list(&wheel->room);
    release_list(&wheel->dealt);
    memory_unmap(wheel->ends, WHEEL_PAGE_TICKS * sizeof *wheel->ends);
    memory_unmap(wheel->near, WHEEL_PAGE_TICKS * sizeof *wheel->near);
    memory_unmap(wheel->far, (size_t)(wheel->n_pages + 1) * sizeof *wheel->far);
    memory_unmap(wheel->blocks, wheel->block_capacity * sizeof *wheel->blocks);
    *wheel = (struct wheel){.n_ticks = 0};
}
