/* kept.c - all that is kept given back, and the walker; see kept.h. */
#include "heap/kept.h"

#include "heap/supply.h"
#include "heap/trays.h"

/* Up to an eighth more than `n`. */
static size_t length_near(size_t n, size_t most) {
    return n + n / 8 < most ? n + n / 8 : most;
}

static void *take_run_near(struct heap *heap, size_t n_units) {
    void *block = NULL;
    for (size_t n = n_units; block == NULL && n <= length_near(n_units, N_KEPT_UNITS); n++)
        block = kept_take_run(heap, n);
    return block;
}

void *kept_take_near(struct heap *heap, size_t bytes) {
    if (bytes > tray_layout.largest)
        return take_run_near(heap, ((bytes - 1) >> UNIT_SHIFT) + 1);
    size_t n_steps = tray_steps_for(bytes);
    void *block = NULL;
    for (size_t n = n_steps; block == NULL && n <= length_near(n_steps, N_TRAY_BLOCK_MAX); n++)
        block = kept_take_block(heap, n);
    return block;
}

/* Bytes that the heap may keep. */
static size_t most_bytes(const struct heap *heap) {
    size_t most = (heap->n_units << UNIT_SHIFT) / 100 * options.kept_percent;
    if (options.purge_delay == 0 || options.secure)
        return 0;
    return most > options.kept_min ? most : options.kept_min;
}

/* The same, but less than what would be a fall (heap_has_fallen). */
static size_t most_before_fall(const struct heap *heap) {
    size_t most = most_bytes(heap);
    size_t low = heap->n_empty_units + heap->n_units_low;
    if (heap->n_units_low == 0)
        return most;
    size_t fall = heap->n_units > low ? (heap->n_units - low) << UNIT_SHIFT : 0;
    return most < fall ? most : fall > 0 ? fall - 1 : 0;
}

bool kept_add_slowly(struct heap *heap, struct slab *slab, void *block) {
    if (slab->class < CLASS_TRAY)
        return false;
    heap->kept.limit = most_bytes(heap);
    bool is_kept = kept_add(heap, slab, slab->class, block);
    heap->kept.limit = most_before_fall(heap);
    if (is_kept)
        supply_schedule_purge(heap);
    return is_kept;
}

bool kept_give_back_larger(struct heap *heap, size_t n) {
    void *block = NULL;
    while (block == NULL && n < N_TRAY_BLOCK_MAX)
        block = kept_take_block(heap, ++n);
    if (block != NULL)
        trays_give_back(heap, block);
    return block != NULL;
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
    heap->kept.added_bytes = 0;
}

static bool runs_are_valid(const struct heap *heap, size_t n, size_t *n_units) {
    for (const struct slab *slab = heap->kept.runs[n]; slab != NULL; slab = slab->next) {
        if (slab->class != CLASS_UNIT_RUN || slab->n_units != n || slab_used(slab) != 0)
            return false;
        *n_units += n;
    }
    return true;
}

bool kept_is_valid(const struct heap *heap) {
    size_t bytes = 0;
    size_t n_units = 0;
    for (size_t n = 1; n <= N_TRAY_BLOCK_MAX; n++)
        for (const void *block = heap->kept.blocks[n]; block != NULL; block = link_follow(block)) {
            if (*tray_length_of(block) != (n | TRAY_KEPT))
                return false;
            bytes += n << tray_layout.step_shift;
        }
    for (size_t n = 1; n <= N_KEPT_UNITS; n++)
        if (!runs_are_valid(heap, n, &n_units))
            return false;
    return n_units == heap->kept.n_units && bytes + (n_units << UNIT_SHIFT) == heap->kept.bytes;
}
