/* harden.c - patterns, random order, guard pages and the quarantine; see harden.h.
 *
 * The order is random as far as the generator is: splitmix64 (Steele et al. 2014)
 * from a seed of the system, for each heap its own.  A guard that the system refuses,
 * because the process has too many mappings, is left out.
 */
#include "memory/harden.h"

#include "base/options.h"
#include "memory/link.h"
#include "system/os.h"
#include "thread/remote.h"

static const uintptr_t junk = (uintptr_t)0xdededededededede;

uintptr_t harden_mark(const void *block) {
    return (uintptr_t)block ^ layout.link_secret ^ junk;
}

void harden_fill(void *block, size_t bytes) {
    uintptr_t *words = block;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = junk;
    words[1] = harden_mark(block);
}

static void verify_from(const uintptr_t *words, size_t first, size_t bytes) {
    if (words[1] != harden_mark(words))
        fatal("write after free", &words[1]);
    for (size_t i = first; i < bytes / sizeof *words; i++)
        if (i != 1 && words[i] != junk)
            fatal("write after free", &words[i]);
}

void harden_verify(const void *block, size_t bytes) {
    verify_from(block, 0, bytes);
}

void harden_hand_out(void *block, size_t bytes) {
    uintptr_t *words = block;
    verify_from(words, 2, bytes);
    words[0] = words[1] = junk;
}

/* --- random order --- */

static uint64_t next_random(struct heap *heap) {
    if (heap->random == 0)
        heap->random = os_random();
    uint64_t z = (heap->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The permutation (Fisher and Yates) is kept in the second words of the blocks. */
void *harden_shuffle(struct heap *heap, char *first, size_t n, size_t block_bytes) {
#define ENTRY(i) (((uintptr_t *)(first + (i)*block_bytes))[1])
    for (size_t i = 0; i < n; i++)
        ENTRY(i) = i;
    for (size_t i = n - 1; i > 0; i--) {
        size_t k = next_random(heap) % (i + 1);
        uintptr_t entry = ENTRY(i);
        ENTRY(i) = ENTRY(k);
        ENTRY(k) = entry;
    }
    for (size_t i = 0; i < n; i++) {
        char *next = i + 1 < n ? first + ENTRY(i + 1) * block_bytes : NULL;
        link_set(first + ENTRY(i) * block_bytes, next);
    }
    return first + ENTRY(0) * block_bytes;
#undef ENTRY
}

/* --- guard pages --- */

size_t harden_guard_bytes(void) {
    bool fits = os_page_bytes() <= UNIT_BYTES / 4;
    return options.secure && fits ? os_page_bytes() : 0;
}

void harden_guard(char *end) {
    size_t bytes = harden_guard_bytes();
    if (bytes > 0)
        os_protect(end - bytes, bytes, true);
}

void harden_unguard(char *end) {
    size_t bytes = harden_guard_bytes();
    if (bytes > 0 && !os_protect(end - bytes, bytes, false))
        fatal("the system does not let a guard page go", end - bytes);
}

/* --- quarantine --- */

void *quarantine_exchange(struct heap *heap, void *block) {
    if (heap->quarantine == NULL)
        heap->quarantine =
            os_map(round_up(options.quarantine * sizeof *heap->quarantine, os_page_bytes()));
    if (heap->quarantine == NULL)
        return block;
    size_t i = next_random(heap) % options.quarantine;
    void *old = heap->quarantine[i];
    heap->quarantine[i] = block;
    if (old != NULL && options.junk)
        harden_verify(old, slab_of((uintptr_t)old)->block_bytes);
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
            harden_verify(block, slab_of((uintptr_t)block)->block_bytes);
        if (superblock_owner(superblock_of((uintptr_t)block)) == heap)
            heap_free(heap, slab_of((uintptr_t)block), block);
        else
            remote_free(heap, block);
    }
}
