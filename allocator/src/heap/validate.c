/* validate.c - the walker over a heap, and the counts that need the same walk.
 *
 * heap_is_valid is what every full assertion calls: it follows all lists of a
 * heap and checks them against the counters that the fast paths keep.
 */
#include "heap/heap.h"
#include "heap/supply.h"
#include "memory/link.h"
#include "memory/tray.h"

static bool partial_is_valid(const struct bin *bin, size_t class) {
    size_t n_empty = 0;
    const struct slab *previous = NULL;
    for (const struct slab *slab = bin->partial.first; slab != NULL; slab = slab->next) {
        if (slab->state != SLAB_PARTIAL || slab->class != class || slab->previous != previous ||
            slab->free == NULL || !slab_is_valid(slab))
            return false;
        n_empty += slab_used(slab) == 0;
        previous = slab;
    }
    return bin->partial.last == previous && n_empty == bin->n_empty;
}

static bool bin_is_valid(const struct bin *bin, size_t class) {
    if (bin->active != &no_slab && (bin->active->state != SLAB_ACTIVE ||
                                    bin->active->class != class || !slab_is_valid(bin->active)))
        return false;
    if (bin->fresh != NULL &&
        (bin->fresh->class != class || bin->fresh->carved == bin->fresh->capacity))
        return false;
    return partial_is_valid(bin, class);
}

/* length of the list == most - countdown */
static bool foreign_is_valid(const struct foreign *list, size_t class) {
    size_t n = 0;
    for (const void *block = list->free; block != NULL && n <= list->most;
         block = link_follow(block), n++)
        if (slab_of((uintptr_t)block)->class != class)
            return false;
    return list->countdown >= 0 && n == (size_t)(list->most - list->countdown);
}

static bool units_of_bins_are_valid(const struct heap *heap) {
    size_t n_units[N_CLASSES_MAX] = {0};
    for (const struct superblock *sb = heap->superblocks; sb != NULL; sb = sb->next)
        for (size_t i = sb->first_unit; i < sb->n_units; i++)
            if (sb->slab[i].n_units > 0 && sb->slab[i].class < classes.n_classes)
                n_units[sb->slab[i].class] += sb->slab[i].n_units;
    for (size_t class = 0; class < classes.n_classes; class ++)
        if (n_units[class] != heap->bins[class].n_units)
            return false;
    return true;
}

bool heap_is_valid(const struct heap *heap) {
    for (size_t class = 0; class < classes.n_classes; class ++)
        if (!bin_is_valid(&heap->bins[class], class) ||
            !foreign_is_valid(&heap->bins[class].foreign, class))
            return false;
    return no_slab.free == NULL && no_slab.countdown == 0 && trays_are_valid(heap) &&
           supply_is_valid(heap) && units_of_bins_are_valid(heap);
}

/* Blocks of a thread's list that are in use by the heap's own counters. */
static size_t count_own(const struct heap *heap, const void *block) {
    size_t n = 0;
    for (; block != NULL; block = link_follow(block))
        n += superblock_owner(superblock_of((uintptr_t)block)) == heap;
    return n;
}

void heap_count(struct heap *heap, struct local *l, size_t *n_blocks, size_t *n_bytes) {
    *n_blocks = 0;
    *n_bytes = 0;
    for (const struct superblock *sb = heap->superblocks; sb != NULL; sb = sb->next)
        for (size_t i = sb->first_unit; i < sb->n_units; i++) {
            const struct slab *slab = &sb->slab[i];
            size_t used = slab_used(slab);
            *n_blocks += used;
            *n_bytes += slab->n_units > 0 ? slab_used_bytes(slab) : 0;
        }
    for (size_t class = 0; class < classes.n_classes; class ++) {
        size_t n = count_own(heap, *ready_list(heap, l, class)) +
                   count_own(heap, heap->bins[class].foreign.free);
        *n_blocks -= n;
        *n_bytes -= n * classes.of[class].block_bytes;
    }
}
