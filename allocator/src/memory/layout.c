/* layout.c - the owner map and the other constants of this run; see layout.h. */
#include "memory/layout.h"

#include "base/options.h"
#include "system/lock.h"
#include "system/os.h"

_Alignas(CACHE_LINE) struct layout layout;

/* The bytes of a range of pieces. */
struct owner_map {
    uint8_t *bytes;  /* atomic; NULL before there are any, which the system fills with 0 */
    uintptr_t first; /* piece of the address space */
    uintptr_t n;     /* pieces */
    uintptr_t low; /* pieces that may have an owner lie in [low, high]; their bytes are writable */
    uintptr_t high;
};

/* The owner maps as the slow paths know them; all state of this module but `layout`. */
static struct {
    struct owner_map near;
    struct owner_map all;
    unsigned shift;   /* log2(superblock_size) */
    struct lock lock; /* while it is held, no superblock is unmapped; guards low and high, and the
                         making of `all` */
} owners = {.near.low = UINTPTR_MAX, .all.low = UINTPTR_MAX};

static bool map_owners(struct owner_map *map, uintptr_t n_pieces) {
    __atomic_store_n(&map->bytes, os_reserve_zeros(n_pieces), __ATOMIC_RELAXED);
    return map->bytes != NULL;
}

/* The map around itself.  Most of it is of lower addresses, since Linux maps downwards (upwards
 * where stacks have no limit).  What is locked in memory is charged for every address of it, and
 * so is a limit of address space, under which a shorter one reaches all that may be mapped. */
static bool map_near(unsigned shift) {
    enum {
        N_MOST = 1 << 22, /* pieces: 4 TiB of superblocks of 1 MiB */
        N_LEAST = 1 << 18
    };
    uintptr_t n_all = (uintptr_t)1 << (ADDRESS_BITS - shift);
    uintptr_t n = n_all < N_MOST ? n_all : N_MOST;
    while (n > N_LEAST && n > os_address_space_bytes() / 64)
        n /= 2;
    if (!map_owners(&owners.near, n))
        return false;
    owners.near.n = n;
    owners.all.n = n_all;
    uintptr_t here = (uintptr_t)owners.near.bytes >> shift;
    uintptr_t below = n - n / 8;
    uintptr_t most = n_all - n;
    owners.near.first = here < below ? 0 : here - below < most ? here - below : most;
    owners.shift = shift;
    layout.owner_map = owners.near.bytes;
    layout.map_start = owners.near.first << shift;
    layout.n_places = n << (shift - PLACE_SHIFT);
    layout.piece_shift = shift - PLACE_SHIFT;
    return true;
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
    if (!map_near(log2_floor(superblock_bytes)))
        return false;
    layout.bytes = superblock_bytes;
    layout.base_mask = ~(superblock_bytes - 1);
    layout.n_units = (uint32_t)(superblock_bytes >> UNIT_SHIFT);
    layout.colour_mask = colour_mask();
    layout.slab_mask = (uintptr_t)(layout.n_units - 1) << SLAB_SHIFT | layout.colour_mask;
    return true;
}

/* The map with the byte of a piece; its `bytes` are NULL if there is none yet. */
static struct owner_map *map_of(uintptr_t piece) {
    return piece - owners.near.first < owners.near.n ? &owners.near : &owners.all;
}

/* The byte of an address, NULL if it has none. */
ALWAYS_INLINE uint8_t *owner_byte(uintptr_t address) {
    uintptr_t piece = address >> owners.shift;
    if (likely(piece - owners.near.first < owners.near.n))
        return &owners.near.bytes[piece - owners.near.first];
    uint8_t *bytes = __atomic_load_n(&owners.all.bytes, __ATOMIC_RELAXED);
    return bytes != NULL && piece < owners.all.n ? &bytes[piece] : NULL;
}

uint8_t owner_of_any(uintptr_t address) {
    const uint8_t *byte = owner_byte(address);
    return byte != NULL ? __atomic_load_n(byte, __ATOMIC_ACQUIRE) : OWNER_NONE;
}

void owner_set(const void *superblock, uint8_t number) {
    __atomic_store_n(owner_byte((uintptr_t)superblock), number, __ATOMIC_RELEASE);
}

/* The page of the map with the byte of a piece. */
static char *page_of(const struct owner_map *map, uintptr_t piece) {
    return (char *)round_down((uintptr_t)&map->bytes[piece - map->first], os_page_bytes());
}

/* Make the bytes of pieces writable, if they are not; with the lock held. */
static bool commit(const struct owner_map *map, uintptr_t low, uintptr_t high) {
    char *from = page_of(map, low);
    char *to = page_of(map, high);
    bool has_any = map->low <= map->high;
    if (has_any && from == page_of(map, map->low) && to == page_of(map, map->high))
        return true;
    return os_protect(from, (size_t)(to - from) + os_page_bytes(), false);
}

/* The map of all addresses, unless it takes more than 1/64 of those that the process may have. */
static bool map_all(void) {
    return owners.all.bytes != NULL ||
           (owners.all.n <= os_address_space_bytes() / 64 && map_owners(&owners.all, owners.all.n));
}

/* The piece may have an owner from now on; with the lock held. */
static bool widen(uintptr_t piece) {
    struct owner_map *map = map_of(piece);
    uintptr_t low = piece < map->low ? piece : map->low;
    uintptr_t high = piece > map->high ? piece : map->high;
    bool is_there = map == &owners.near || (piece < map->n && map_all());
    if (!is_there || !commit(map, low, high))
        return false;
    map->low = low;
    map->high = high;
    return true;
}

bool owner_map_widen(const void *start, size_t bytes) {
    uintptr_t piece = (uintptr_t)start >> owners.shift;
    uintptr_t last = ((uintptr_t)start + bytes - 1) >> owners.shift;
    lock_take(&owners.lock);
    while (piece <= last && widen(piece))
        piece++;
    lock_release(&owners.lock);
    return piece > last;
}

bool owner_map_lock(bool waits) {
    return lock_take_or_try(&owners.lock, waits);
}

void owner_map_unlock(void) {
    lock_release(&owners.lock);
}

/* The next piece from `piece` on that has an owner in the map; UINTPTR_MAX if none has.  What the
 * other one has lies among the pieces of a map of all. */
static uintptr_t next_owned(const struct owner_map *map, uintptr_t piece) {
    for (piece = piece > map->low ? piece : map->low; piece <= map->high; piece++)
        if (map_of(piece) == map && owner_of_any(piece << owners.shift) != OWNER_NONE)
            return piece;
    return UINTPTR_MAX;
}

void *owner_map_next(const void *previous) {
    uintptr_t from = previous != NULL ? ((uintptr_t)previous >> owners.shift) + 1 : 0;
    const struct owner_map *map = previous != NULL ? map_of(from - 1) : &owners.near;
    uintptr_t piece = next_owned(map, from);
    if (piece == UINTPTR_MAX && map == &owners.near)
        piece = next_owned(&owners.all, 0);
    return piece != UINTPTR_MAX ? (void *)(piece << owners.shift) : NULL;
}
