/* address_map.c - see address_map.h. */
#include "builder/address_map.h"

#include "memory.h" /* memory_map */

enum {
    FIRST_CAPACITY = 1 << 16
};

/* Fibonacci hashing (Knuth 6.4): the top bits of a product with 2^64 / phi. */
static size_t home_of(const struct address_map *map, uint64_t address) {
    uint64_t product = (address >> 3) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(product >> map->shift);
}

static size_t next_of(const struct address_map *map, size_t place) {
    return (place + 1) & (map->capacity - 1);
}

static bool open_with(struct address_map *map, size_t capacity) {
    map->entries = memory_map(capacity * sizeof *map->entries);
    map->capacity = capacity;
    map->n_used = 0;
    map->shift = 64 - (unsigned)__builtin_ctzl(capacity);
    if (map->entries != NULL)
        memory_prefer_huge(map->entries, capacity * sizeof *map->entries);
    return map->entries != NULL;
}

bool address_map_open(struct address_map *map) {
    return open_with(map, FIRST_CAPACITY);
}

void address_map_close(struct address_map *map) {
    memory_unmap(map->entries, map->capacity * sizeof *map->entries);
}

/* The place of the address, or the empty place where it would go. */
static size_t place_of(const struct address_map *map, uint64_t address) {
    size_t place = home_of(map, address);
    while (map->entries[place].address != 0 && map->entries[place].address != address)
        place = next_of(map, place);
    return place;
}

void address_map_prefetch(const struct address_map *map, uint64_t address) {
    __builtin_prefetch(&map->entries[home_of(map, address)], 1);
}

bool address_map_find(const struct address_map *map, uint64_t address, uint32_t *slot) {
    const struct address_entry *entry = &map->entries[place_of(map, address)];
    *slot = entry->slot;
    return entry->address != 0;
}

static bool grow(struct address_map *map) {
    struct address_map bigger;
    if (!open_with(&bigger, 2 * map->capacity))
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].address != 0)
            bigger.entries[place_of(&bigger, map->entries[i].address)] = map->entries[i];
    bigger.n_used = map->n_used;
    address_map_close(map);
    *map = bigger;
    return true;
}

bool address_map_add(struct address_map *map, uint64_t address, uint32_t slot) {
    if (2 * (map->n_used + 1) > map->capacity && !grow(map))
        return false;
    map->entries[place_of(map, address)] = (struct address_entry){address, slot};
    map->n_used++;
    return true;
}

bool address_map_remove(struct address_map *map, uint64_t address, uint32_t *slot) {
    size_t hole = place_of(map, address);
    *slot = map->entries[hole].slot;
    if (map->entries[hole].address == 0)
        return false;
    /* Move back every entry that would no longer be reached across the hole. */
    for (size_t i = next_of(map, hole); map->entries[i].address != 0; i = next_of(map, i)) {
        size_t distance = (i - home_of(map, map->entries[i].address)) & (map->capacity - 1);
        if (distance >= ((i - hole) & (map->capacity - 1))) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole] = (struct address_entry){0, 0};
    map->n_used--;
    return true;
}
