/* tray.c - what a tray says of its blocks, and its memory given back; see tray.h. */
#include "memory/tray.h"

#include "base/options.h"
#include "system/os.h"

_Static_assert(sizeof(((struct slab *)0)->lengths) * 1024 == UNIT_BYTES, "one for each step");

struct tray_layout tray_layout;

void tray_init(void) {
    size_t n = N_STEPS * options.tray_step / UNIT_BYTES;
    size_t most = N_TRAY_BLOCK_MAX * options.tray_step;
    if (options.secure || n > layout.n_units / 4)
        return;
    tray_layout.step_shift = log2_floor(options.tray_step);
    tray_layout.step_mask = (uint32_t)options.tray_step - 1;
    tray_layout.n_units = n;
    tray_layout.largest = options.tray_max < most ? options.tray_max : most;
}

/* --- one tray --- */

size_t tray_block_bytes(const struct slab *slab, const void *block) {
    size_t at = tray_step_at(slab, block);
    size_t length = at < N_STEPS ? tray_length_of(block) : 0;
    return length << tray_layout.step_shift;
}

void tray_check(const struct slab *slab, const void *block) {
    if (tray_block_bytes(slab, block) > 0)
        return;
    size_t at = (size_t)((const char *)block - slab->start) >> tray_layout.step_shift;
    bool is_free = (slab[1].free_steps >> at & 1) != 0;
    fatal(is_free ? "double free" : "invalid free, inside a block", block);
}

/* --- giving memory back --- */

/* Give back the pages [from, to) of steps; false if they are too few. */
static bool purge_run(struct slab *slab, size_t from, size_t to) {
    size_t bytes = (to - from) * tray_step_bytes();
    if (bytes < options.purge_min)
        return false;
    if (os_purge(slab->start + from * tray_step_bytes(), bytes, options.purge_how))
        slab[1].dirty_steps &= ~steps(from, to - from);
    return true;
}

/* The steps of the pages that are free, were so at the last look or, with `all`, need not have
 * been, and were written; a page has `n` steps, a power of two. */
static step_set purgeable(const struct slab *slab, size_t n, bool all) {
    step_set dirty = slab[1].dirty_steps;
    step_set too_new = all ? 0 : dirty & ~slab[2].aged_steps;
    step_set keep = ~slab[1].free_steps | too_new;
    for (size_t step = 1; step < n; step *= 2) { /* the first step speaks for its page */
        keep |= keep >> step;
        dirty |= dirty >> step;
    }
    return (dirty & ~keep & every(n)) * steps(0, n);
}

bool tray_purge(struct slab *slab, bool all) {
    if (os_page_bytes() > UNIT_BYTES)
        return false; /* a tray need not begin with a page */
    size_t n = os_page_bytes() > tray_step_bytes() ? os_page_bytes() / tray_step_bytes() : 1;
    bool gave = false;
    step_set left = purgeable(slab, n, all);
    while (left != 0) {
        size_t from = lowest(left);
        size_t length = lowest(~(left >> from));
        gave = purge_run(slab, from, from + length) || gave;
        left &= ~steps(from, length);
    }
    slab[2].aged_steps = slab[1].dirty_steps;
    return gave;
}

void tray_purge_superblock(struct superblock *sb) {
    size_t n_left = options.purge_how != PURGE_NEVER ? sb->n_trays : 0;
    for (size_t i = sb->first_unit; n_left > 0 && i < sb->n_units; i++)
        if (sb->slab[i].n_units > 0 && sb->slab[i].class == CLASS_TRAY) {
            tray_purge(&sb->slab[i], true);
            n_left--;
        }
}

/* --- walkers --- */

bool tray_is_valid(const struct slab *slab) {
    size_t n_blocks = 0;
    size_t n_used = 0;
    size_t run = 0;
    size_t longest = 0;
    for (size_t at = 0; at < N_STEPS;) {
        size_t length = tray_length_of(slab->start + at * tray_step_bytes());
        bool is_free = slab[1].free_steps >> at & 1;
        if (is_free == (length > 0) || at + length > N_STEPS)
            return false;
        if (!is_free && (slab[1].free_steps & steps(at, length)) != 0)
            return false;
        n_blocks += !is_free;
        n_used += length;
        run = is_free ? run + 1 : 0;
        longest = run > longest ? run : longest;
        at += is_free ? 1 : length;
    }
    return slab->capacity == (longest < N_TRAY_LISTS ? longest : N_TRAY_LISTS - 1) &&
           slab->countdown == -1 && slab->asleep == n_blocks && slab->carved == n_used &&
           (slab[1].dirty_steps & ~slab[1].free_steps) == 0 &&
           (slab[2].aged_steps & ~slab[1].dirty_steps) == 0;
}
