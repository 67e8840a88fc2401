/* quarantine.c - blocks held back in random places; see quarantine.h. */
#include "thread/quarantine.h"

#include "base/options.h"
#include "memory/junk.h"
#include "system/os.h"
#include "system/random.h"
#include "thread/remote.h"

void *quarantine_exchange(struct heap *heap, void *block) {
    if (heap->quarantine == NULL)
        heap->quarantine =
            os_map(round_up(options.quarantine * sizeof *heap->quarantine, os_page_bytes()));
    if (heap->quarantine == NULL)
        return block;
    size_t i = random_next(&heap->random) % options.quarantine;
    void *old = heap->quarantine[i];
    heap->quarantine[i] = block;
    if (old != NULL && options.junk)
        junk_verify(old, slab_of((uintptr_t)old)->block_bytes);
    return old;
}

bool quarantine_has(const struct heap *heap, const void *block) {
    for (size_t i = 0; heap->quarantine != NULL && i < options.quarantine; i++)
        if (heap->quarantine[i] == block)
            return true;
    return false;
}

void quarantine_flush(struct heap *heap) {
    if (heap->quarantine == NULL)
        return;
    for (size_t i = 0; i < options.quarantine; i++) {
        void *block = heap->quarantine[i];
        heap->quarantine[i] = NULL;
        if (block == NULL)
            continue;
        if (options.junk)
            junk_verify(block, slab_of((uintptr_t)block)->block_bytes);
        if (superblock_owner(superblock_of((uintptr_t)block)) == heap)
            heap_free(heap, slab_of((uintptr_t)block), block);
        else
            remote_free(heap, block);
    }
}
