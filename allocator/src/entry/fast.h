/* fast.h - the common paths of malloc and free, for the files that export them.
 *
 * malloc: size -> class (one byte load) -> first block of the thread's list.
 * free: may this be a block -> owner map says "mine" -> count down in the slab -> no mark of a free
 * one -> push on its list.
 * Everything else is a function apart, reached by a tail call.  The number of
 * instructions of both paths is in the README and held by a test.
 */
#ifndef EXGEN_FAST_H
#define EXGEN_FAST_H

#include "heap/heap.h"
#include "memory/link.h"

/* A request above QUICK_MAX.  NULL and ENOMEM if out of memory. */
NOINLINE void *allocate_slowly(size_t size);

/* The same for a size up to QUICK_MAX, of `class`, whose list in local.free has no sound block. */
NOINLINE void *allocate_refilled(size_t size, size_t class);

/* Blocks of other threads, large blocks, what is no block, and all with check:true; `owner` is
 * what owner_at says. */
NOINLINE void free_slowly(void *block, uint8_t owner);
NOINLINE void free_sized_slowly(void *block, size_t size, uint8_t owner);

/* Finish a free of the thread's own block whose countdown went below 0; its unit's entry lies
 * `from_first` bytes behind the slab's. */
NOINLINE void free_event(void *block, struct slab *slab, size_t from_first);

/* The thread's own block that bears the mark of a free one, which ends the program if it is one; it
 * was counted down.  Not cold: memory that the program never wrote may bear the mark of a block
 * that lay there. */
NOINLINE void free_marked(void *block, struct slab *slab);

/* The first block of a list; NULL if it is empty or damaged: heap_take_active finds out which. */
ALWAYS_INLINE void *pop(void **list) {
    list = plain_address(list);
    void *block = *list;
    if (unlikely(block == NULL || !link_is_sound(block)))
        return NULL;
    set_behind(list, block);
    return block;
}

/* What to call where the list of the class has no block, and for a larger one. */
typedef void *refilled(size_t size, size_t class);
typedef void *slowly(size_t size);

ALWAYS_INLINE void *allocate_or(size_t size, refilled *refill, slowly *otherwise) {
    if (unlikely(size > QUICK_MAX))
        return otherwise(size);
    size_t class = class_of_quick(size);
    void *block = pop(&local.free[class]);
    if (unlikely(block == NULL))
        return refill(size, class);
    link_unmark(block); /* with junk the list has none */
    return block;
}

ALWAYS_INLINE void *allocate(size_t size) {
    return allocate_or(size, allocate_refilled, allocate_slowly);
}

ALWAYS_INLINE void deallocate_mine(void *block) {
    const struct slab *entry = unit_slab_of((uintptr_t)block);
    size_t from_first = entry->to_first;
    struct slab *slab = (struct slab *)((uintptr_t)entry - from_first);
    if (unlikely(--slab->countdown < 0)) {
        free_event(block, slab, from_first);
        return;
    }
    if (unlikely(link_is_marked(block))) {
        free_marked(block, slab);
        return;
    }
    link_push(&slab->free, block);
}

ALWAYS_INLINE void deallocate(void *block) {
    uint8_t owner = owner_at((uintptr_t)block);
    if (likely(owner == local.number))
        deallocate_mine(block);
    else
        free_slowly(block, owner);
}

ALWAYS_INLINE void deallocate_sized(void *block, size_t size) {
    uint8_t owner = owner_at((uintptr_t)block);
    if (likely(owner == local.number))
        deallocate_mine(block);
    else
        free_sized_slowly(block, size, owner);
}

#endif
