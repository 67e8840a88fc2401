/* kept.c - what is kept given back, and the walker; see kept.h. */
#include "heap/kept.h"

#include "heap/supply.h"
#include "heap/trays.h"

/* A kept block of a tray, with `n` steps; NULL if there is none.  A damaged list ends the program.
 */
static void *take_block(struct heap *heap, size_t n) {
    void *block = kept_pop_block(heap, n);
    if (unlikely(block == NULL && heap->kept.first[n] != NULL))
        fatal("corrupted free list", heap->kept.first[n]);
    return block;
}

/* The first length that has blocks, from `n` on to `n_more` steps or units more; the last of these
 * if none has. */
ALWAYS_INLINE size_t length_near(void *const *first, size_t n, size_t n_more, size_t n_last) {
    size_t most = n + n_more < n_last ? n + n_more : n_last;
    while (n < most && first[n] == NULL)
        n++;
    return n;
}

/* What a longer block has too much is idle while it is in use.  On trays a quarter may be, since
 * with an eighth several times as many requests of random sizes find none. */
void *kept_take_near(struct heap *heap, size_t bytes) {
    if (bytes <= tray_layout.largest) {
        size_t n = tray_steps_for(bytes);
        return take_block(heap, length_near(heap->kept.first, n, n / 4, N_TRAY_BLOCK_MAX));
    }
    size_t n = ((bytes - 1) >> UNIT_SHIFT) + 1;
    void *const *runs = &heap->kept.first[N_TRAY_BLOCK_MAX];
    return kept_pop_run(heap, length_near(runs, n, n / 8, N_KEPT_UNITS));
}

/* Bytes that the heap may keep when `n_freed` units are no longer in use: as many as are in use, or
 * were and are not. */
static size_t most_bytes(const struct heap *heap, size_t n_freed) {
    size_t n_not = heap->kept.n_units + n_freed;
    size_t n_in_use = heap->n_units > n_not ? heap->n_units - n_not : 0; /* 0: freed twice */
    size_t n_were = heap->n_units_peak > n_in_use ? heap->n_units_peak - n_in_use : 0;
    size_t n = n_in_use > n_were ? n_in_use : n_were;
    size_t most = n * options.kept_percent / 100 << UNIT_SHIFT;
    if (options.purge_delay == 0 || options.secure)
        return 0;
    return most > options.kept_min ? most : options.kept_min;
}

/* The same, but less than what would be a fall (heap_has_fallen). */
static size_t most_before_fall(const struct heap *heap) {
    size_t most = most_bytes(heap, 0);
    size_t low = heap->n_empty_units + heap->n_units_low;
    if (heap->n_units_low == 0)
        return most;
    size_t fall = heap->n_units > low ? (heap->n_units - low) << UNIT_SHIFT : 0;
    return most < fall ? most : fall > 0 ? fall - 1 : 0;
}

bool kept_add_slowly(struct heap *heap, struct slab *slab, void *block) {
    kept_set_limit(heap, most_bytes(heap, slab->class == CLASS_UNIT_RUN ? slab->n_units : 0));
    bool is_kept = kept_add(heap, slab, unit_slab_of((uintptr_t)block), slab->class, block);
    kept_set_limit(heap, most_before_fall(heap));
    if (is_kept)
        supply_schedule_purge(heap);
    return is_kept;
}

bool kept_has(const struct heap *heap, const struct slab *slab, const void *block) {
    if (slab->class == CLASS_TRAY)
        return link_has(heap->kept.first[tray_length_of(block)], block);
    return slab_is_kept(slab);
}

bool kept_give_back_larger(struct heap *heap, size_t n) {
    void *block = NULL;
    while (block == NULL && n < N_TRAY_BLOCK_MAX)
        block = take_block(heap, ++n);
    if (block != NULL)
        trays_give_back(heap, block);
    return block != NULL;
}

static void give_back_run(struct heap *heap, struct slab *slab) {
    slab_set_used(slab, 0, 0);
    supply_give(heap, slab);
}

void kept_give_back(struct heap *heap, size_t bytes) {
    if (kept_bytes(heap) == 0)
        return;
    size_t left = kept_bytes(heap) > bytes ? kept_bytes(heap) - bytes : 0;
    void *block;
    struct slab *slab;
    for (size_t n = 1; n <= N_TRAY_BLOCK_MAX; n++)
        while (kept_bytes(heap) > left && (block = take_block(heap, n)) != NULL)
            trays_give_back(heap, block);
    for (size_t n = 1; n <= N_KEPT_UNITS; n++)
        while (kept_bytes(heap) > left && (slab = kept_pop_slab(heap, n)) != NULL)
            give_back_run(heap, slab);
    ASSERT(kept_bytes(heap) <= left);
    if (left == 0)
        heap->kept.n_taken = heap->kept.n_until_tick;
}

void kept_count(const struct heap *heap, size_t *n_blocks, size_t *n_bytes) {
    *n_blocks = 0;
    *n_bytes = 0;
    for (size_t n = 1; n <= N_TRAY_BLOCK_MAX; n++) {
        size_t n_listed = link_count(heap->kept.first[n], SIZE_MAX);
        *n_blocks += n_listed;
        *n_bytes += n_listed * n << tray_layout.step_shift;
    }
}

/* Whether the list has blocks of its length only, `n` steps on trays. */
static bool blocks_are_valid(const struct heap *heap, size_t n) {
    const void *block = heap->kept.first[n];
    for (; block != NULL; block = link_follow(block))
        if (slab_of((uintptr_t)block)->class != CLASS_TRAY || tray_length_of(block) != n ||
            !link_is_marked(block))
            return false;
    return true;
}

/* The same of slabs with a block of `n` units; adds their units. */
static bool runs_are_valid(const struct heap *heap, size_t n, size_t *n_units) {
    const struct slab *slab = heap->kept.first[N_TRAY_BLOCK_MAX + n];
    for (; slab != NULL; slab = slab->next) {
        if (slab->n_units != n || slab->countdown != COUNTDOWN_KEPT || !slab_is_kept(slab))
            return false;
        *n_units += n;
    }
    return true;
}

bool kept_is_valid(const struct heap *heap) {
    size_t n_blocks;
    size_t bytes;
    size_t n_units = 0;
    for (size_t n = 1; n <= N_TRAY_BLOCK_MAX; n++)
        if (!blocks_are_valid(heap, n))
            return false;
    for (size_t n = 1; n <= N_KEPT_UNITS; n++)
        if (!runs_are_valid(heap, n, &n_units))
            return false;
    kept_count(heap, &n_blocks, &bytes);
    return n_units == heap->kept.n_units && bytes + (n_units << UNIT_SHIFT) == kept_bytes(heap);
}
