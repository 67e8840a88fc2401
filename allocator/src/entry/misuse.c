/* misuse.c - find invalid frees before they do harm; used with check:true only.
 *
 * Interior and foreign pointers are found for certain, from the slab's
 * geometry.  A double free is suspected from a mark in the second word
 * of a freed block, which goes when the block is handed out, and made certain by a walk through the
 * lists, so there are no false alarms and few walks.  With junk the mark alone is certain.  Not
 * seen: a double free of a block whose second word the program overwrote in between, and one where
 * another thread owns the block.
 */
#include "entry/misuse.h"

#include "base/options.h"
#include "heap/heap.h"
#include "memory/junk.h"
#include "memory/link.h"
#include "memory/tray.h"
#include "thread/quarantine.h"

static bool is_free_here(const struct slab *slab, const void *block) {
    return heap_lists(local.heap, &local, slab, block) || quarantine_has(local.heap, block);
}

/* A free slab, or a block among those the slab never gave out. */
static void check_in_use(struct slab *slab, const void *block, size_t number) {
    if (slab_used(slab) == 0)
        fatal("double free", block);
    if (number >= slab->carved)
        fatal("invalid free, not a block of this heap", block);
}

void misuse_hand_out(void *block, size_t bytes) {
    if (options.junk)
        junk_hand_out(block, bytes);
    else
        link_unmark(block);
}

/* Of another thread's slab only what stays while one of its blocks is in use
 * may be read. */
void misuse_check_free(struct slab *slab, void *block) {
    bool own = superblock_owner(superblock_of((uintptr_t)slab)) == local.heap;
    if (slab->block_bytes == 0)
        fatal("double free", block);
    size_t offset = (size_t)((char *)block - slab->start);
    size_t capacity = slab->class == CLASS_TRAY ? N_STEPS : slab->capacity;
    if ((char *)block < slab->start || offset / slab->block_bytes >= capacity)
        fatal("invalid free, not a block of this heap", block);
    if (slab->class == CLASS_TRAY) {
        tray_check(slab, block);
        return;
    }
    if (own)
        check_in_use(slab, block, offset / slab->block_bytes);
    if (offset % slab->block_bytes != 0)
        fatal("invalid free, inside a block", block);
    if (link_is_marked(block) && slab->class < CLASS_TRAY &&
        (options.junk || (own && is_free_here(slab, block))))
        fatal("double free", block);
    if (own || options.junk)
        link_mark(block);
}
