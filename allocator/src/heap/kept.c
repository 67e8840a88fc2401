/* kept.c - what is kept given back, and the walker; see kept.h. */
#include "heap/kept.h"

#include "heap/supply.h"
#include "heap/trays.h"

/* The same if the list is empty; a damaged one ends the program. */
static void *unless_damaged(const struct heap *heap, size_t list, void *block) {
    if (unlikely(block == NULL && heap->kept.blocks[list] != NULL))
        fatal("corrupted free list", heap->kept.blocks[list]);
    return block;
}

/* A kept block of a tray, with `n` steps; NULL if there is none. */
static void *take_block(struct heap *heap, size_t n) {
    return unless_damaged(heap, n, kept_pop_block(heap, n));
}

/* The same with `n` units of its own, up to N_KEPT_UNITS. */
static void *take_run(struct heap *heap, size_t n) {
    return unless_damaged(heap, N_TRAY_BLOCK_MAX + n, kept_pop_run(heap, n));
}

/* The first length that has blocks, from `n` on to `n_more` steps or units more; the last of these
 * if none has. */
ALWAYS_INLINE size_t length_near(void *const *blocks, size_t n, size_t n_more, size_t n_last) {
    size_t most = n + n_more < n_last ? n + n_more : n_last;
    while (n < most && blocks[n] == NULL)
        n++;
    return n;
}

/* What a longer block has too much is idle while it is in use.  On trays a quarter may be, since
 * with an eighth several times as many requests of random sizes find none. */
void *kept_take_near(struct heap *heap, size_t bytes) {
    if (bytes <= tray_layout.largest) {
        size_t n = tray_steps_for(bytes);
        return take_block(heap, length_near(heap->kept.blocks, n, n / 4, N_TRAY_BLOCK_MAX));
    }
    size_t n = ((bytes - 1) >> UNIT_SHIFT) + 1;
    void *const *runs = &heap->kept.blocks[N_TRAY_BLOCK_MAX];
    return n <= N_KEPT_UNITS ? take_run(heap, length_near(runs, n, n / 8, N_KEPT_UNITS)) : NULL;
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

/* The first kept block of the length of `block`, which lies in `slab`. */
static void *first_like(const struct heap *heap, const struct slab *slab, const void *block) {
    size_t list = slab->class == CLASS_TRAY       ? tray_length_of(block)
                  : slab->class == CLASS_UNIT_RUN ? (size_t)N_TRAY_BLOCK_MAX + slab->n_units
                                                  : N_KEPT_LISTS;
    return list < N_KEPT_LISTS ? heap->kept.blocks[list] : NULL;
}

bool kept_has(const struct heap *heap, const struct slab *slab, const void *block) {
    return link_has(first_like(heap, slab, block), block);
}

bool kept_was_last(const struct heap *heap, const struct slab *slab, const void *block) {
    return first_like(heap, slab, block) == block;
}

bool kept_give_back_larger(struct heap *heap, size_t n) {
    void *block = NULL;
    while (block == NULL && n < N_TRAY_BLOCK_MAX)
        block = take_block(heap, ++n);
    if (block != NULL)
        trays_give_back(heap, block);
    return block != NULL;
}

static void give_back_run(struct heap *heap, void *block) {
    struct slab *slab = slab_of((uintptr_t)block);
    slab_set_used(slab, 0, 0);
    supply_give(heap, slab);
}

void kept_give_back(struct heap *heap, size_t bytes) {
    if (kept_bytes(heap) == 0)
        return;
    size_t left = kept_bytes(heap) > bytes ? kept_bytes(heap) - bytes : 0;
    void *block;
    for (size_t n = 1; n <= N_TRAY_BLOCK_MAX; n++)
        while (kept_bytes(heap) > left && (block = take_block(heap, n)) != NULL)
            trays_give_back(heap, block);
    for (size_t n = 1; n <= N_KEPT_UNITS; n++)
        while (kept_bytes(heap) > left && (block = take_run(heap, n)) != NULL)
            give_back_run(heap, block);
    ASSERT(kept_bytes(heap) <= left);
    if (left == 0)
        heap->kept.n_taken = heap->kept.n_until_tick;
}

void kept_count(const struct heap *heap, size_t *n_blocks, size_t *n_bytes) {
    *n_blocks = 0;
    *n_bytes = 0;
    for (size_t list = 1; list < N_KEPT_LISTS; list++) {
        size_t n = link_count(heap->kept.blocks[list], SIZE_MAX);
        *n_blocks += n;
        *n_bytes += list <= N_TRAY_BLOCK_MAX ? n * list << tray_layout.step_shift
                                             : n * (list - N_TRAY_BLOCK_MAX) << UNIT_SHIFT;
    }
}

/* Whether the list has blocks of its length only. */
static bool list_is_valid(const struct heap *heap, size_t list) {
    for (const void *block = heap->kept.blocks[list]; block != NULL; block = link_follow(block)) {
        const struct slab *slab = slab_of((uintptr_t)block);
        bool is_there = list <= N_TRAY_BLOCK_MAX
                            ? slab->class == CLASS_TRAY && tray_length_of(block) == list
                            : slab->class == CLASS_UNIT_RUN && block == slab->start &&
                                  slab->n_units == list - N_TRAY_BLOCK_MAX;
        if (!is_there || !link_is_marked(block))
            return false;
    }
    return true;
}

bool kept_is_valid(const struct heap *heap) {
    size_t n_blocks;
    size_t bytes;
    size_t n_units = 0;
    for (size_t list = 1; list < N_KEPT_LISTS; list++)
        if (!list_is_valid(heap, list))
            return false;
    for (size_t n = 1; n <= N_KEPT_UNITS; n++)
        n_units += n * link_count(heap->kept.blocks[N_TRAY_BLOCK_MAX + n], SIZE_MAX);
    kept_count(heap, &n_blocks, &bytes);
    return n_units == heap->kept.n_units && bytes == kept_bytes(heap);
}
