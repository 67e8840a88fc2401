/* layout.c - the owner map and the other constants of this run; see layout.h. */
#include "memory/layout.h"

#include "system/lock.h"
#include "system/os.h"

/* Until the start every address leads to this byte, so that free(NULL) works. */
static uint8_t no_owner = OWNER_NONE;

_Alignas(CACHE_LINE) struct layout layout = {.owner_map = &no_owner, .shift = 63};

/* The owner map as the slow paths know it; all state of this module but `layout`. */
static struct {
    uint8_t *bytes;  /* of the pieces from `first` on */
    uintptr_t first; /* piece of the address space */
    uintptr_t n;     /* pieces; 0 before the start */
    unsigned shift;  /* log2(superblock_size) */
    uintptr_t low;   /* pieces that ever had an owner lie in [low, high] */
    uintptr_t high;
    struct lock lock; /* while it is held, no superblock is unmapped; guards low and high */
} owners = {.low = UINTPTR_MAX};

/* A map of the whole address space, or, where address space is limited, of the
 * pieces around it: the system maps what is asked for side by side.  With the
 * small one, free finds every owner on its slow path. */
static bool map_owners(unsigned shift) {
    enum {
        N_AROUND = 1 << 20 /* pieces: 1 TiB of superblocks of 1 MiB */
    };
    owners.shift = shift;
    owners.n = (uintptr_t)1 << (ADDRESS_BITS - shift);
    owners.bytes = os_map_sparse(owners.n);
    if (owners.bytes != NULL) {
        layout.owner_map = owners.bytes;
        layout.shift = shift;
        return true;
    }
    owners.bytes = os_map_sparse(N_AROUND);
    uintptr_t here = (uintptr_t)owners.bytes >> shift;
    owners.first = here > N_AROUND / 2 ? here - N_AROUND / 2 : 0;
    owners.n = owners.bytes != NULL ? N_AROUND : 0;
    return owners.bytes != NULL;
}

bool layout_init(size_t superblock_bytes) {
    if (!map_owners(log2_floor(superblock_bytes)))
        return false;
    layout.bytes = superblock_bytes;
    layout.base_mask = ~(superblock_bytes - 1);
    layout.n_units = (uint32_t)(superblock_bytes >> UNIT_SHIFT);
    layout.slab_mask = (uintptr_t)(layout.n_units - 1) << SLAB_SHIFT;
    return true;
}

/* The byte of the map for an address, NULL if it has none. */
static uint8_t *owner_byte(uintptr_t address) {
    uintptr_t piece = (address >> owners.shift) - owners.first;
    return piece < owners.n ? &owners.bytes[piece] : NULL;
}

uint8_t owner_of_any(uintptr_t address) {
    const uint8_t *byte = owner_byte(address);
    return byte != NULL ? __atomic_load_n(byte, __ATOMIC_RELAXED) : OWNER_NONE;
}

bool owner_map_reaches(const void *start, size_t bytes) {
    return owner_byte((uintptr_t)start) != NULL && owner_byte((uintptr_t)start + bytes - 1) != NULL;
}

void owner_set(const void *superblock, uint8_t number) {
    __atomic_store_n(owner_byte((uintptr_t)superblock), number, __ATOMIC_RELAXED);
}

void owner_map_widen(const void *superblock) {
    uintptr_t piece = (uintptr_t)superblock >> owners.shift;
    lock_take(&owners.lock);
    owners.low = piece < owners.low ? piece : owners.low;
    owners.high = piece > owners.high ? piece : owners.high;
    lock_release(&owners.lock);
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
