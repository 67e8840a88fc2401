/* layout.c - the owner map and the other constants of this run; see layout.h. */
#include "memory/layout.h"

#include "base/options.h"
#include "system/lock.h"
#include "system/os.h"

/* Until the start every address leads to these bytes, so that free(NULL) works. */
static uint8_t no_owner[2] = {OWNER_NONE, OWNER_NONE};

_Alignas(CACHE_LINE) struct layout layout = {.owner_map = no_owner, .shift = 63};

/* The owner map as the slow paths know it; all state of this module but `layout`. */
static struct {
    uint8_t *bytes;  /* of the pieces from `first` on */
    uintptr_t first; /* piece of the address space */
    uintptr_t n;     /* pieces; 0 before the start */
    unsigned shift;  /* log2(superblock_size) */
    uintptr_t low; /* pieces that may have an owner lie in [low, high]; their bytes are writable */
    uintptr_t high;
    struct lock lock; /* while it is held, no superblock is unmapped; guards low and high */
} owners = {.low = UINTPTR_MAX};

/* A map of the whole address space, or, where that would take more than 1/64 of the address space
 * that the process may have, of the pieces around it: the system maps what is asked for side by
 * side.  With the small one free finds every owner on its slow path, which knows where the map
 * ends. */
static bool map_owners(unsigned shift) {
    enum {
        N_AROUND = 1 << 20 /* pieces: 1 TiB of superblocks of 1 MiB */
    };
    owners.shift = shift;
    owners.n = (uintptr_t)1 << (ADDRESS_BITS - shift);
    owners.bytes = owners.n <= os_address_space_bytes() / 64 ? os_reserve_zeros(owners.n) : NULL;
    if (owners.bytes != NULL) {
        layout.owner_map = owners.bytes;
        layout.shift = shift;
    }
    if (owners.bytes != NULL)
        return true;
    owners.bytes = os_reserve_zeros(N_AROUND);
    uintptr_t here = (uintptr_t)owners.bytes >> shift;
    owners.first = here > N_AROUND / 2 ? here - N_AROUND / 2 : 0;
    owners.n = owners.bytes != NULL ? N_AROUND : 0;
    return owners.bytes != NULL;
}

/* Heads lie at one of four places, which two bits of the address choose that are above those inside
 * a superblock: 0, 1, 4 or 5 tables of slabs in.  Two tables in, a head of 64 units with a heap in
 * it would leave no room for blocks on its last page.  Small superblocks have no room to give up,
 * and the largest have tables that fill a cache evenly by themselves. */
static uintptr_t colour_mask(void) {
    enum {
        PLACES = 1 | 4, /* all that its bits give, in tables */
        N_UNITS_LEAST = 64,
        N_UNITS_MOST = 256
    };
    bool has_colours = layout.n_units >= N_UNITS_LEAST && layout.n_units <= N_UNITS_MOST;
    return has_colours ? (uintptr_t)PLACES * layout.n_units << SLAB_SHIFT : 0;
}

bool layout_init(size_t superblock_bytes) {
    if (!map_owners(log2_floor(superblock_bytes)))
        return false;
    layout.bytes = superblock_bytes;
    layout.base_mask = ~(superblock_bytes - 1);
    layout.n_units = (uint32_t)(superblock_bytes >> UNIT_SHIFT);
    layout.colour_mask = colour_mask();
    layout.slab_mask = (uintptr_t)(layout.n_units - 1) << SLAB_SHIFT | layout.colour_mask;
    return true;
}

/* The byte of the map for an address, NULL if it has none. */
static uint8_t *owner_byte(uintptr_t address) {
    uintptr_t piece = (address >> owners.shift) - owners.first;
    return piece < owners.n ? &owners.bytes[piece] : NULL;
}

uint8_t owner_of_any(uintptr_t address) {
    const uint8_t *byte = owner_byte(address);
    return byte != NULL ? __atomic_load_n(byte, __ATOMIC_ACQUIRE) : OWNER_NONE;
}

void owner_set(const void *superblock, uint8_t number) {
    __atomic_store_n(owner_byte((uintptr_t)superblock), number, __ATOMIC_RELEASE);
}

/* The page of the map with the byte of a piece. */
static char *page_of(uintptr_t piece) {
    return (char *)round_down((uintptr_t)&owners.bytes[piece - owners.first], os_page_bytes());
}

/* Make the bytes of pieces writable, if they are not; with the lock held. */
static bool commit(uintptr_t low, uintptr_t high) {
    char *from = page_of(low);
    char *to = page_of(high);
    bool has_any = owners.low <= owners.high;
    if (has_any && from == page_of(owners.low) && to == page_of(owners.high))
        return true;
    return os_protect(from, (size_t)(to - from) + os_page_bytes(), false);
}

bool owner_map_widen(const void *start, size_t bytes) {
    const uint8_t *first = owner_byte((uintptr_t)start);
    const uint8_t *last = owner_byte((uintptr_t)start + bytes - 1);
    bool is_wide = first != NULL && last != NULL;
    uintptr_t low = (uintptr_t)start >> owners.shift;
    uintptr_t high = ((uintptr_t)start + bytes - 1) >> owners.shift;
    if (!is_wide)
        return false;
    lock_take(&owners.lock);
    low = low < owners.low ? low : owners.low;
    high = high > owners.high ? high : owners.high;
    is_wide = commit(low, high);
    if (is_wide) {
        owners.low = low;
        owners.high = high;
    }
    lock_release(&owners.lock);
    return is_wide;
}

bool owner_map_lock(bool waits) {
    return lock_take_or_try(&owners.lock, waits);
}

void owner_map_unlock(void) {
    lock_release(&owners.lock);
}

void *owner_map_next(const void *previous) {
    uintptr_t piece = previous != NULL ? ((uintptr_t)previous >> owners.shift) + 1 : owners.low;
    for (; piece <= owners.high; piece++)
        if (owner_of_any(piece << owners.shift) != OWNER_NONE)
            return (void *)(piece << owners.shift);
    return NULL;
}
