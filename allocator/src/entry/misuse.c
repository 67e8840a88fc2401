/* misuse.c - find invalid frees before they do harm; used with check:true only.
 *
 * Interior and foreign pointers are found for certain, from the slab's
 * geometry.  A double free is suspected from a mark in the second word
 * of a freed block, which goes when the block is handed out, and made certain by a walk through the
 * lists, so there are no false alarms and few walks.  With junk the mark alone is certain.  Not
 * seen: a double free of a block whose second word the program overwrote in between (but of one
 * with units of its own), and one where another thread owns the block.
 */
#include "entry/misuse.h"

#include "base/options.h"
#include "heap/heap.h"
#include "memory/canary.h"
#include "memory/link.h"
#include "memory/tray.h"
#include "thread/quarantine.h"

static bool is_free_here(const struct slab *slab, const void *block) {
    return local.heap != NULL &&
           (heap_lists(local.heap, &local, slab, block) || quarantine_has(local.heap, block));
}

/* A block that has no size class, or what is no slab. */
static void check_apart(const struct slab *slab, const void *block) {
    if (slab->block_bytes == 0)
        fatal("double free", block);
    size_t offset = (size_t)((const char *)block - slab->start);
    size_t capacity = slab->class == CLASS_TRAY ? N_STEPS : slab->capacity;
    if ((const char *)block < slab->start || offset / slab->block_bytes >= capacity)
        fatal("invalid free, not a block of this heap", block);
    if (slab_is_kept(slab) || (link_is_marked(block) && is_free_here(slab, block)))
        fatal("double free", block);
    if (slab->class == CLASS_TRAY)
        tray_check(slab, block);
    else if (offset != 0)
        fatal("invalid free, inside a block", block);
}

/* Of another thread's slab only what stays while one of its blocks is in use
 * may be read; its capacity may fall to what is carved meanwhile. */
void misuse_check_free(const struct slab *slab, const void *block, bool is_own) {
    size_t class = slab->class;
    if (class >= CLASS_TRAY) {
        check_apart(slab, block);
        return;
    }
    size_t bytes = slab->block_bytes;
    size_t offset = (size_t)((const char *)block - slab->start);
    if (offset >= bytes * __atomic_load_n(&slab->capacity, __ATOMIC_RELAXED))
        fatal("invalid free, not a block of this heap", block);
    size_t number = size_class_number(classes.of[class].inverse, offset);
    if (is_own && slab_used(slab) == 0)
        fatal("double free", block);
    if (is_own && number >= slab->carved)
        fatal("invalid free, not a block of this heap", block);
    if (number * bytes != offset)
        fatal("invalid free, inside a block", block);
    if (unlikely(link_is_marked(block)) && (options.junk || is_free_here(slab, block)))
        fatal("double free", block);
    if (!options.secure)
        return;
    canary_size(block, bytes);
    if (number > 0)
        canary_check_before(block, bytes);
}
