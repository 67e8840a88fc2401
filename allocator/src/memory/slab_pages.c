/* slab_pages.c - free pages inside slabs; see slab_pages.h.
 *
 * Which blocks are free is only known by a walk along the slab's list, which is sorted into a set
 * of their numbers; a page can go if all blocks that reach into it are in the set.
 */
#include "memory/slab_pages.h"

#include <string.h>

#include "memory/link.h"
#include "system/os.h"

enum {
    N_BLOCKS_MOST = 1024 /* of a slab that is looked at */
};

_Static_assert(UNIT_BYTES / BLOCK_ALIGNMENT <= N_BLOCKS_MOST, "the smallest blocks of one unit");

struct block_set {
    uint64_t word[N_BLOCKS_MOST / 64];
};

static void set_add(struct block_set *set, size_t number) {
    set->word[number / 64] |= (uint64_t)1 << number % 64;
}

static bool set_has(const struct block_set *set, size_t number) {
    return set->word[number / 64] >> number % 64 & 1;
}

/* --- pages --- */

/* The bit of a page of the slab, in the entry of its unit. */
static uint8_t page_bit(uintptr_t page) {
    return (uint8_t)(1u << (page & (UNIT_BYTES - 1)) / os_page_bytes());
}

static struct slab *entry_of(struct slab *slab, uintptr_t page) {
    return &slab[(page - round_down((uintptr_t)slab->start, UNIT_BYTES)) >> UNIT_SHIFT];
}

static bool is_absent(const struct slab *slab, uintptr_t page) {
    return (entry_of((struct slab *)slab, page)->absent & page_bit(page)) != 0;
}

/* Whole pages of blocks lie in [first, end). */
static uintptr_t pages_first(const struct slab *slab) {
    return round_up((uintptr_t)slab->start, os_page_bytes());
}

static uintptr_t pages_end(const struct slab *slab) {
    uintptr_t end = (uintptr_t)slab->start + (size_t)slab->capacity * slab->block_bytes;
    return round_down(end, os_page_bytes());
}

/* --- blocks --- */

/* The first block that begins on a page or behind it. */
static size_t first_on(const struct slab *slab, uintptr_t page) {
    return (page - (uintptr_t)slab->start + slab->block_bytes - 1) / slab->block_bytes;
}

static size_t end_on(const struct slab *slab, uintptr_t page) {
    size_t end = first_on(slab, page + os_page_bytes());
    return end < slab->capacity ? end : slab->capacity;
}

static bool begins_on_absent(const struct slab *slab, const void *block) {
    uintptr_t page = round_down((uintptr_t)block, os_page_bytes());
    return page >= pages_first(slab) && page < pages_end(slab) && is_absent(slab, page);
}

static struct block_set free_blocks(const struct slab *slab) {
    struct block_set set = {{0}};
    for (const void *block = slab->free; block != NULL; block = link_follow(block)) {
        size_t number = (size_t)((const char *)block - slab->start) / slab->block_bytes;
        if (number >= slab->capacity)
            fatal("corrupted free list", block);
        set_add(&set, number);
    }
    for (uintptr_t page = pages_first(slab); page < pages_end(slab); page += os_page_bytes())
        for (size_t i = first_on(slab, page); is_absent(slab, page) && i < end_on(slab, page); i++)
            set_add(&set, i);
    return set;
}

static bool is_free(const struct slab *slab, const struct block_set *set, uintptr_t page) {
    size_t first = (page - (uintptr_t)slab->start) / slab->block_bytes;
    for (size_t i = first; i < end_on(slab, page); i++)
        if (!set_has(set, i))
            return false;
    return true;
}

/* --- giving back --- */

/* Mark pages absent that are free; false if there are none.  *dropped: one bit each. */
static bool mark_free_pages(struct slab *slab, struct block_set *dropped) {
    struct block_set set = free_blocks(slab);
    uintptr_t first = pages_first(slab);
    bool is_any = false;
    for (uintptr_t page = first; page < pages_end(slab); page += os_page_bytes())
        if (!is_absent(slab, page) && is_free(slab, &set, page)) {
            struct slab *entry = entry_of(slab, page);
            entry->absent = (uint8_t)((entry->absent | page_bit(page)) & 15);
            set_add(dropped, (page - first) / os_page_bytes());
            is_any = true;
        }
    return is_any;
}

/* Leave only those blocks in the list whose links stay. */
static void unlink_absent(struct slab *slab) {
    void *kept = NULL;
    for (void *block = slab->free, *next; block != NULL; block = next) {
        next = link_follow(block);
        if (begins_on_absent(slab, block))
            continue;
        link_set(block, kept);
        kept = block;
    }
    slab->free = link_reverse(kept);
}

static void purge_pages(const struct slab *slab, const struct block_set *pages) {
    uintptr_t first = pages_first(slab);
    size_t n = (pages_end(slab) - first) / os_page_bytes();
    for (size_t at = 0, end; at < n; at = end + 1) {
        end = at;
        while (end < n && set_has(pages, end))
            end++;
        if (end > at)
            os_purge((void *)(first + at * os_page_bytes()), (end - at) * os_page_bytes(),
                     options.purge_how);
    }
}

bool slab_drop_pages(struct slab *slab) {
    struct block_set dropped = {{0}};
    if (!slab_may_drop_pages() || slab->capacity > N_BLOCKS_MOST || slab->carved < slab->capacity ||
        os_page_bytes() * 4 < UNIT_BYTES || os_page_bytes() > UNIT_BYTES)
        return false;
    if (!mark_free_pages(slab, &dropped))
        return false;
    slab->has_absent = true;
    unlink_absent(slab);
    purge_pages(slab, &dropped);
    return true;
}

/* --- and back --- */

static void check_list(const struct slab *slab) {
    for (const void *block = slab->free; block != NULL; block = link_follow(block))
        if (begins_on_absent(slab, block))
            fatal("double free", block);
}

static void clear(struct slab *slab) {
    for (size_t i = 0; i < slab->n_units; i++)
        slab[i].absent = 0;
    slab->has_absent = false;
}

/* Lowest addresses first. */
void slab_restore_pages(struct slab *slab) {
    check_list(slab);
    uintptr_t first = pages_first(slab);
    for (uintptr_t page = pages_end(slab); page > first;) {
        page -= os_page_bytes();
        if (!is_absent(slab, page))
            continue;
        for (size_t i = end_on(slab, page); i > first_on(slab, page); i--) {
            void *block = slab->start + (i - 1) * slab->block_bytes;
            link_freed(block, slab->free);
            slab->free = block;
        }
    }
    clear(slab);
}

void slab_forget_pages(struct slab *slab) {
    check_list(slab);
    clear(slab);
}

size_t slab_count_absent(const struct slab *slab) {
    size_t n = 0;
    for (uintptr_t page = pages_first(slab); page < pages_end(slab); page += os_page_bytes())
        if (is_absent(slab, page))
            n += end_on(slab, page) - first_on(slab, page);
    return n;
}
