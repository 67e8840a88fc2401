/* address_map.h - which slot lives at an address.
 *
 * Open addressing with linear probing (Knuth, The Art of Computer Programming
 * volume 3, section 6.4, algorithms L and R), at most half full, memory by mmap.
 */
#ifndef MALLOC_TUNER_RECORDER_ADDRESS_MAP_H
#define MALLOC_TUNER_RECORDER_ADDRESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address_entry {
    uint64_t address; /* 0: the place is empty */
    uint32_t slot;
};

struct address_map {
    struct address_entry *entries; /* capacity, a power of two */
    size_t capacity;
    size_t n_used;
    unsigned shift; /* 64 - log2(capacity) */
};

bool address_map_open(struct address_map *map);

/* The address will be looked up soon. */
void address_map_prefetch(const struct address_map *map, uint64_t address);

/* True and *slot when the address (not 0) is in the map. */
bool address_map_find(const struct address_map *map, uint64_t address, uint32_t *slot);

/* Adds an address that is not in the map; false when there is no memory. */
bool address_map_add(struct address_map *map, uint64_t address, uint32_t slot);

/* As find, and takes the address out. */
bool address_map_remove(struct address_map *map, uint64_t address, uint32_t *slot);

void address_map_close(struct address_map *map);

#endif
