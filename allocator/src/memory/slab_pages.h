/* slab_pages.h - whole pages of a slab on which no block is in use, given back to the system.
 *
 * The free blocks that begin on such a page leave the slab's list with it: the page is absent, and
 * they are linked anew before the slab is used again.  Only slabs in the list of partial ones have
 * absent pages, so nothing that allocates or frees a block has to know of them.
 *
 *   carved == used + length of `free` + blocks that begin on absent pages
 */
#ifndef EXGEN_SLAB_PAGES_H
#define EXGEN_SLAB_PAGES_H

#include "base/options.h"
#include "memory/slab.h"

/* Whether slabs may give back pages at all; a look at them is in vain otherwise. */
ALWAYS_INLINE bool slab_may_drop_pages(void) {
    return options.purge_how != PURGE_NEVER && !options.junk;
}

/* So few blocks in use are worth a look at the pages: not more than there are pages of 4 KiB, or
 * half as many as at the last look, and so on, so that the list is walked a few times only. */
ALWAYS_INLINE uint32_t slab_few_blocks(const struct slab *slab) {
    uint32_t n_pages = slab->n_units * (UNIT_BYTES / 4096u);
    uint32_t half = slab->capacity / 2;
    return (n_pages < half ? n_pages : half) >> slab->n_thinned;
}

/* Give back the pages of a slab, all of it carved, that have no block in use.  False if there are
 * none that are not absent already.  Takes time by the length of its list. */
bool slab_drop_pages(struct slab *slab);

/* Link the blocks again that begin on absent pages.  A block that is in the list already was freed
 * twice, which ends the program. */
void slab_restore_pages(struct slab *slab);

/* No page is absent any more: nothing of the slab is in use. */
void slab_forget_pages(struct slab *slab);

/* Blocks that begin on absent pages. */
size_t slab_count_absent(const struct slab *slab);

#endif
