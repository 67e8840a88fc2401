/* sparse.c - which slabs give back pages, and when; see sparse.h and memory/slab_pages.h.
 *
 * A few blocks that stay hold a slab whose class nobody asks for any more.  Slabs are looked at
 * when the heap grows and by the purger; those give back pages that nobody used since the last
 * look.
 */
#include "heap/sparse.h"

#include "base/options.h"
#include "system/os.h"

enum {
    N_GROWTH_LOOKS = 16 /* superblocks looked at for each one that is mapped */
};

/* So few blocks are in use that there are not more of them than pages, or half as many as at the
 * last look, and so on: the list of a slab is walked a few times only. */
static size_t few_blocks(const struct slab *slab) {
    size_t n_pages = (size_t)slab->n_units * UNIT_BYTES / os_page_bytes();
    size_t half = slab->capacity / 2;
    return (n_pages < half ? n_pages : half) >> slab->n_thinned;
}

static bool is_sparse(const struct slab *slab) {
    return slab->n_units > 0 && slab->state == SLAB_PARTIAL && slab->class < CLASS_TRAY &&
           !slab->is_empty && slab_used(slab) <= few_blocks(slab);
}

static void look_at(struct heap *heap, struct slab *slab) {
    while (slab_used(slab) <= few_blocks(slab))
        slab->n_thinned++;
    heap_drop_pages(heap, slab);
}

static bool may_drop(void) {
    return options.purge_how != PURGE_NEVER && !options.junk;
}

/* Of slabs that were not used since the last look. */
static void drop(struct heap *heap, struct superblock *sb) {
    for (size_t i = sb->first_unit, next; i < sb->n_units; i = next) {
        next = i + (sb->slab[i].n_units > 0 ? sb->slab[i].n_units : 1);
        struct slab *slab = &sb->slab[i];
        if (!is_sparse(slab))
            continue;
        if (slab->is_old)
            look_at(heap, slab);
        slab->is_old = true;
    }
}

void sparse_make_room(struct heap *heap) {
    struct superblock *sb = heap->sparse_next;
    for (size_t i = 0; may_drop() && i < N_GROWTH_LOOKS && heap->superblocks != NULL; i++) {
        if (sb == NULL)
            sb = heap->superblocks;
        drop(heap, sb);
        sb = sb->next;
    }
    heap->sparse_next = sb;
}

bool sparse_look_step(struct heap *heap) {
    struct superblock *sb = heap->look_sparse;
    if (sb == NULL || !may_drop())
        return false;
    drop(heap, sb);
    heap->look_sparse = sb->next;
    return true;
}
