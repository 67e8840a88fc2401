/* owner.c - model: a thread that reads an owner in the map reads the head that was written before,
 * also if it got the address by nothing that orders the two threads; the common path, which reads
 * without an order, finds the owner of a block that it got by something that does. */
#include "model.h"

#include "memory/layout.c"

enum {
    SHIFT = 40, /* so that the map is short */
    NUMBER = 5
};

static uint8_t map[1 << (ADDRESS_BITS - SHIFT)];
static int head;
static const uintptr_t address = (uintptr_t)3 << SHIFT;

/* The first map has all pieces, as there are few. */
void *os_reserve_zeros(size_t bytes) {
    assert(bytes == sizeof map);
    return map;
}

size_t os_address_space_bytes(void) {
    return SIZE_MAX;
}

size_t os_page_bytes(void) {
    return 4096;
}

bool os_protect(void *start, size_t bytes, bool is_guard) {
    (void)start;
    (void)bytes;
    return !is_guard;
}

static uintptr_t handed_over; /* atomic */

static void *make(void *argument) {
    head = 1;
    bool is_wide = owner_map_widen((void *)address, (size_t)1 << SHIFT);
    assert(is_wide);
    owner_set((void *)address, NUMBER);
    __atomic_store_n(&handed_over, address, __ATOMIC_RELEASE);
    return argument;
}

static void *look(void *argument) {
    uint8_t owner = owner_of_any(address);
    if (owner != OWNER_NONE)
        assert(owner == NUMBER && head == 1);
    uintptr_t block = __atomic_load_n(&handed_over, __ATOMIC_ACQUIRE);
    if (block != 0)
        assert(owner_at(block) == NUMBER);
    return argument;
}

int main(void) {
    bool is_ready = layout_init((size_t)1 << SHIFT);
    assert(is_ready);
    run_two(make, look);
    return 0;
}
