/* validate.c - the walker over a heap, and the counts that need the same walk; see validate.h.
 *
 * heap_is_valid is what every full assertion calls: it follows all lists of a
 * heap and checks them against the counters that the fast paths keep.
 */
#include "heap/validate.h"

#include "heap/kept.h"
#include "heap/supply.h"
#include "heap/trays.h"
#include "memory/link.h"
#include "memory/slab_pages.h"

static bool unit_classes_are_valid(const struct slab *slab) {
    for (size_t i = 0; i < slab->n_units; i++)
        if (slab[i].unit_class != (slab->class < CLASS_TRAY ? slab->class + 1 : 0))
            return false;
    return true;
}

static bool slab_is_valid(const struct slab *slab) {
    bool is_kept = slab_is_kept(slab);
    if (slab->n_units == 0 || slab->state == SLAB_FREE || slab->to_first != 0 ||
        (slab->countdown < -1 && !is_kept) || !unit_classes_are_valid(slab))
        return false;
    if (slab->class == CLASS_TRAY)
        return tray_is_valid(slab);
    if (slab->state == SLAB_ACTIVE && slab->asleep != 0)
        return false;
    size_t used = slab_used(slab);
    size_t n_listed = link_count(slab->free, slab->capacity) + is_kept;
    size_t n_absent = slab->has_absent ? slab_count_absent(slab) : 0;
    if (used + n_listed + n_absent != slab->carved || slab->carved > slab->capacity)
        return false;
    for (size_t i = 1; i < slab->n_units; i++)
        if (slab[i].to_first != i << SLAB_SHIFT || slab[i].countdown != 0)
            return false;
    const char *end =
        superblock_start(superblock_of((uintptr_t)slab)) +
        ((size_t)(slab - superblock_of((uintptr_t)slab)->slab + slab->n_units) << UNIT_SHIFT);
    return slab->start + (size_t)slab->capacity * slab->block_bytes <= end;
}

static bool partial_is_valid(const struct bin *bin, size_t class) {
    size_t n_empty = 0;
    const struct slab *previous = NULL;
    for (const struct slab *slab = bin->partial.first; slab != NULL; slab = slab->next) {
        if (slab->state != SLAB_PARTIAL || slab->class != class || slab->previous != previous ||
            (slab->free == NULL && !slab->has_absent) || !slab_is_valid(slab))
            return false;
        if (slab->is_empty != (slab_used(slab) == 0) || (n_empty > 0 && !slab->is_empty))
            return false;
        n_empty += slab->is_empty;
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

static bool batch_is_valid(const struct batch *batch, size_t class) {
    if (batch == NULL)
        return true;
    for (size_t i = 0; i < batch->n; i++)
        if (slab_of((uintptr_t)batch->blocks[i])->class != class)
            return false;
    return batch->n == 0 || batch->n < batch->n_most;
}

/* Each slab, and the units of all slabs of a class against what its bin counts, and of those that
 * wait to be used against what the lists of bins have. */
static bool slabs_are_valid(const struct heap *heap) {
    size_t n_units[N_CLASSES_MAX] = {0};
    size_t n_slack = 0;
    for (const struct superblock *sb = heap->superblocks; sb != NULL; sb = sb->next)
        for (size_t i = sb->first_unit; i < sb->n_units; i++) {
            const struct slab *slab = &sb->slab[i];
            if (slab->n_units > 0 && !slab_is_valid(slab))
                return false;
            if (slab->n_units == 0 || slab->class >= classes.n_classes)
                continue;
            n_units[slab->class] += slab->n_units;
            n_slack += slab->state == SLAB_PARTIAL && slab->is_slack ? slab->n_units : 0;
        }
    for (size_t class = 0; class < classes.n_classes; class ++)
        if (n_units[class] != heap->bins[class].n_units)
            return false;
    return n_slack == heap->n_slack_units;
}

/* Units of slabs that wait to be used, and of those the empty ones. */
static bool partial_units_are_valid(const struct heap *heap) {
    size_t n_units = 0;
    size_t n_empty = 0;
    for (size_t class = 0; class < classes.n_classes; class ++)
        for (const struct slab *slab = heap->bins[class].partial.first; slab != NULL;
             slab = slab->next) {
            n_units += slab->is_slack ? slab->n_units : 0;
            n_empty += slab_used(slab) == 0 ? slab->n_units : 0;
        }
    return n_units == heap->n_slack_units && n_empty == heap->n_empty_units;
}

bool heap_is_valid(const struct heap *heap) {
    if (!partial_units_are_valid(heap))
        return false;
    for (size_t class = 0; class < classes.n_classes; class ++)
        if (!bin_is_valid(&heap->bins[class], class) ||
            !foreign_is_valid(&heap->bins[class].foreign, class) ||
            !batch_is_valid(batch_of(heap, class), class))
            return false;
    return kept_is_valid(heap) && no_slab.free == NULL && no_slab.countdown == 0 &&
           trays_are_valid(heap) && supply_is_valid(heap) && slabs_are_valid(heap);
}

static bool is_own(const struct heap *heap, const void *block) {
    return superblock_owner(superblock_of((uintptr_t)block)) == heap;
}

/* Blocks of a thread's list that are in use by the heap's own counters. */
static size_t count_own(const struct heap *heap, const void *block) {
    size_t n = 0;
    for (; block != NULL; block = link_follow(block))
        n += is_own(heap, block);
    return n;
}

/* The same of a batch: they were others' when they were freed. */
static size_t count_own_in(const struct heap *heap, const struct batch *batch) {
    size_t n = 0;
    for (size_t i = 0; batch != NULL && i < batch->n; i++)
        n += is_own(heap, batch->blocks[i]);
    return n;
}

/* Take out what is held back, which counts as in use as well. */
static void take_out_quarantined(const struct heap *heap, size_t *n_blocks, size_t *n_bytes) {
    for (size_t i = 0; heap->quarantine != NULL && i < options.quarantine; i++) {
        const void *block = heap->quarantine[i];
        if (block == NULL || !is_own(heap, block))
            continue;
        --*n_blocks;
        *n_bytes -= slab_of((uintptr_t)block)->block_bytes;
    }
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
                   count_own(heap, heap->bins[class].foreign.free) +
                   count_own_in(heap, batch_of(heap, class));
        *n_blocks -= n;
        *n_bytes -= n * classes.of[class].block_bytes;
    }
    take_out_quarantined(heap, n_blocks, n_bytes);
    size_t n_kept;
    size_t kept_bytes;
    kept_count(heap, &n_kept, &kept_bytes);
    *n_blocks -= n_kept;
    *n_bytes -= kept_bytes;
}
