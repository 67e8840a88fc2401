/* kept.c - a run that is kept, and all of it given back; see kept.h. */
#include "heap/kept.h"

#include "heap/supply.h"
#include "heap/trays.h"

void *kept_take_run(struct heap *heap, size_t n_units) {
    size_t most = n_units + n_units / 8;
    for (size_t n = n_units; n <= most && n <= N_KEPT_UNITS; n++) {
        struct slab *slab = kept_pop_run(heap, n);
        if (slab != NULL) {
            slab->free = NULL;
            slab_set_used(slab, 1, 1);
            hand_out(slab->start);
            return slab->start;
        }
    }
    return NULL;
}

void kept_give_back(struct heap *heap) {
    if (heap->kept.bytes == 0)
        return;
    for (size_t n = 1; n <= N_TRAY_BLOCK_MAX; n++)
        for (void *block; (block = kept_take_block(heap, n)) != NULL;)
            trays_give_back(heap, block);
    for (size_t n = 1; n <= N_KEPT_UNITS; n++)
        for (struct slab *slab; (slab = kept_pop_run(heap, n)) != NULL;)
            supply_give(heap, slab);
    ASSERT(heap->kept.bytes == 0);
    heap->kept.hit_bytes = 0;
}
