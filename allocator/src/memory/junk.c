/* junk.c - patterns in free blocks, and blocks in random order; see junk.h. */
#include "memory/junk.h"

#include "base/options.h"
#include "memory/link.h"
#include "system/random.h"

/* What a program freed is not to be read, with `secure`; otherwise it is to be noticed. */
static uintptr_t junk_word(void) {
    return options.secure ? 0 : (uintptr_t)0xdededededededede;
}

/* The last word, which may be the mark, is atomic for canary_check_before. */
void junk_fill(void *block, size_t bytes) {
    uintptr_t *words = block;
    uintptr_t junk = junk_word();
    size_t n = bytes / sizeof *words;
    for (size_t i = 0; i + 1 < n; i++)
        words[i] = junk;
    __atomic_store_n(&words[n - 1], junk, __ATOMIC_RELAXED);
    __atomic_store_n(&words[1], layout.link_secret, __ATOMIC_RELAXED);
}

static void verify_from(const uintptr_t *words, size_t first, size_t bytes) {
    uintptr_t junk = junk_word();
    if (!link_is_marked(words))
        fatal("write after free", &words[1]);
    for (size_t i = first; i < bytes / sizeof *words; i++)
        if (i != 1 && words[i] != junk)
            fatal("write after free", &words[i]);
}

void junk_verify(const void *block, size_t bytes) {
    verify_from(block, 0, bytes);
}

void junk_hand_out(void *block, size_t bytes) {
    uintptr_t *words = block;
    verify_from(words, 2, bytes);
    words[0] = junk_word();
    __atomic_store_n(&words[1], junk_word(), __ATOMIC_RELAXED);
}

/* --- random order --- */

/* The permutation (Fisher and Yates) is kept in the second words of the blocks. */
void *junk_shuffle(uint64_t *state, char *first, size_t n, size_t block_bytes) {
#define ENTRY(i) (((uintptr_t *)(first + (i)*block_bytes))[1])
    for (size_t i = 0; i < n; i++)
        ENTRY(i) = i;
    for (size_t i = n; i > 1; i--) {
        size_t k = random_next(state) % i;
        uintptr_t entry = ENTRY(i - 1);
        ENTRY(i - 1) = ENTRY(k);
        ENTRY(k) = entry;
    }
    for (size_t i = 0; i < n; i++) {
        char *next = i + 1 < n ? first + ENTRY(i + 1) * block_bytes : NULL;
        link_set(first + ENTRY(i) * block_bytes, next);
    }
    return first + ENTRY(0) * block_bytes;
#undef ENTRY
}
