/* slab_pages.c - free pages inside slabs; see slab_pages.h.
 *
 * Which blocks are free is only known by a walk along the slab's list, which counts them on the
 * pages that they touch; a page can go if it has as many free blocks as blocks.
 */
#include "memory/slab_pages.h"

#include <string.h>

#include "memory/link.h"
#include "system/os.h"

enum {
    N_BLOCKS_MOST = 1024,               /* of a slab that is looked at */
    N_PAGES_MOST = LISTED_UNITS_MAX * 4 /* ... of at least a quarter of a unit each */
};

_Static_assert(UNIT_BYTES / BLOCK_ALIGNMENT <= N_BLOCKS_MOST, "the smallest blocks of one unit");

/* What a look at a slab finds on its pages, counted from the one where the slab starts. */
struct look {
    uintptr_t base;
    unsigned shift;                /* log2 of the bytes of a page */
    uint16_t n_free[N_PAGES_MOST]; /* free blocks that touch the page, or DROPPED */
};

enum {
    DROPPED = UINT16_MAX /* the page becomes absent */
};

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

static size_t page_at(const struct look *look, uintptr_t address) {
    return (address - look->base) >> look->shift;
}

/* Count a free block on all pages that it touches. */
static void count_block(struct look *look, uintptr_t block, size_t bytes) {
    size_t last = page_at(look, block + bytes - 1);
    for (size_t page = page_at(look, block); page <= last; page++)
        look->n_free[page]++;
}

static void count_free_blocks(struct look *look, const struct slab *slab) {
    size_t bytes = slab->block_bytes;
    uintptr_t start = (uintptr_t)slab->start;
    size_t last = (slab->capacity - 1) * bytes;
    size_t n = 0;
    for (const void *block = slab->free; block != NULL; block = link_follow(block)) {
        if (unlikely((uintptr_t)block - start > last || ++n > slab->capacity))
            fatal("corrupted free list", block);
        count_block(look, (uintptr_t)block, bytes);
    }
    for (uintptr_t page = pages_first(slab); page < pages_end(slab); page += os_page_bytes())
        for (size_t i = first_on(slab, page); is_absent(slab, page) && i < end_on(slab, page); i++)
            count_block(look, start + i * bytes, bytes);
}

static bool is_free(const struct look *look, const struct slab *slab, uintptr_t page) {
    size_t first = (page - (uintptr_t)slab->start) / slab->block_bytes;
    return look->n_free[page_at(look, page)] == end_on(slab, page) - first;
}

/* --- giving back --- */

/* Mark pages absent that are free; false if there are none. */
static bool mark_free_pages(struct look *look, struct slab *slab) {
    bool is_any = false;
    for (uintptr_t page = pages_first(slab); page < pages_end(slab); page += os_page_bytes())
        if (!is_absent(slab, page) && is_free(look, slab, page)) {
            struct slab *entry = entry_of(slab, page);
            entry->absent = (uint8_t)((entry->absent | page_bit(page)) & 15);
            look->n_free[page_at(look, page)] = DROPPED;
            is_any = true;
        }
    return is_any;
}

/* Let `block` be what follows `last` in the list, its first if that is NULL. */
static void set_next(struct slab *slab, void *last, void *block) {
    if (last != NULL)
        link_set(last, block);
    else
        slab->free = block;
}

/* Leave only those blocks in the list whose links stay. */
static void unlink_dropped(const struct look *look, struct slab *slab) {
    void *last = NULL;
    bool is_cut = false;
    for (void *block = slab->free, *next; block != NULL; block = next) {
        next = link_follow(block);
        bool goes = look->n_free[page_at(look, (uintptr_t)block)] == DROPPED;
        if (is_cut && !goes)
            set_next(slab, last, block);
        last = goes ? last : block;
        is_cut = goes;
    }
    if (is_cut)
        set_next(slab, last, NULL);
}

static void purge_dropped(const struct look *look, const struct slab *slab) {
    size_t n = page_at(look, pages_end(slab));
    for (size_t at = page_at(look, pages_first(slab)), end; at < n; at = end + 1) {
        end = at;
        while (end < n && look->n_free[end] == DROPPED)
            end++;
        if (end > at)
            os_purge((void *)(look->base + (at << look->shift)), (end - at) << look->shift,
                     options.purge_how);
    }
}

bool slab_drop_pages(struct slab *slab) {
    struct look look;
    if (!slab_may_drop_pages() || slab->capacity > N_BLOCKS_MOST || slab->carved < slab->capacity ||
        os_page_bytes() * 4 < UNIT_BYTES || os_page_bytes() > UNIT_BYTES)
        return false;
    look.base = round_down((uintptr_t)slab->start, os_page_bytes());
    look.shift = log2_floor(os_page_bytes());
    memset(look.n_free, 0,
           ((size_t)slab->n_units << UNIT_SHIFT >> look.shift) * sizeof *look.n_free);
    count_free_blocks(&look, slab);
    if (!mark_free_pages(&look, slab))
        return false;
    slab->has_absent = true;
    unlink_dropped(&look, slab);
    purge_dropped(&look, slab);
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
            link_push(&slab->free, block);
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
