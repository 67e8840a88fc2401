/* sparse.c - which slabs give back pages, and when; see sparse.h and memory/slab_pages.h.
 *
 * A few blocks that stay hold a slab whose class nobody asks for any more.  In a slack heap it
 * gives back pages as soon as it has few (heap.c).  In others slabs are looked at when the heap
 * grows and by the purger; those give back pages that nobody used since the last look.
 */
#include "heap/sparse.h"

#include "memory/slab_pages.h"

enum {
    N_GROWTH_LOOKS = 16 /* superblocks looked at for each one that is mapped */
};

static bool is_sparse(const struct slab *slab) {
    return slab->n_units > 0 && slab->state == SLAB_PARTIAL && slab->class < CLASS_TRAY &&
           !slab->is_empty && slab_used(slab) <= slab_few_blocks(slab);
}

enum when {
    AT_ONCE,
    IF_OLD
};

/* Of slabs that were not used since the last look, or of all. */
static void drop(struct heap *heap, struct superblock *sb, enum when when) {
    for (size_t i = sb->first_unit, next; i < sb->n_units; i = next) {
        next = i + (sb->slab[i].n_units > 0 ? sb->slab[i].n_units : 1);
        struct slab *slab = &sb->slab[i];
        if (!is_sparse(slab))
            continue;
        if (slab->is_old || when == AT_ONCE)
            heap_thin(heap, slab);
        else
            heap->has_ageing_slabs = true;
        slab->is_old = true;
    }
}

void sparse_make_room(struct heap *heap) {
    struct superblock *sb = heap->sparse_next;
    bool may_look = slab_may_drop_pages() && heap->superblocks != NULL;
    for (size_t i = 0; may_look && i < N_GROWTH_LOOKS; i++) {
        if (sb == NULL)
            sb = heap->superblocks;
        drop(heap, sb, IF_OLD);
        sb = sb->next;
    }
    heap->sparse_next = sb;
}

bool sparse_look_step(struct heap *heap) {
    struct superblock *sb = heap->look_sparse;
    if (sb == NULL || !slab_may_drop_pages())
        return false;
    drop(heap, sb, IF_OLD);
    heap->look_sparse = sb->next;
    return true;
}

void sparse_give_back(struct heap *heap) {
    if (!slab_may_drop_pages())
        return;
    for (struct superblock *sb = heap->superblocks; sb != NULL; sb = sb->next)
        drop(heap, sb, AT_ONCE);
}
