/* nothing.c - a bit for each address; see nothing.h. */
#include "memory/nothing.h"

#include "system/os.h"

enum {
    N_WORDS = N_NOTHING / 64
};

/* All state of this module. */
static struct {
    char *start;      /* of the addresses; NULL: there are none */
    uint64_t *in_use; /* atomic: N_WORDS of them */
    size_t next;      /* atomic: where to look first, modulo N_NOTHING */
} nothing;

void nothing_init(void) {
    uint64_t *in_use = os_map(N_WORDS * sizeof *in_use);
    size_t bytes = (size_t)N_NOTHING * BLOCK_ALIGNMENT;
    char *start = in_use != NULL ? os_reserve_zeros(bytes) : NULL;
    if (start == NULL || !os_protect(start, bytes, true))
        return;
    nothing.in_use = in_use;
    nothing.start = start;
}

/* The lowest address of a word, from bit `from` on, that is not in use; N_NOTHING if there is
 * none. */
static size_t take_in(size_t word, size_t from) {
    uint64_t used = __atomic_load_n(&nothing.in_use[word], __ATOMIC_RELAXED);
    uint64_t left;
    while ((left = ~used >> from << from) != 0) {
        uint64_t bit = left & -left;
        if (__atomic_compare_exchange_n(&nothing.in_use[word], &used, used | bit, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return word * 64 + (size_t)__builtin_ctzll(bit);
    }
    return N_NOTHING;
}

void *nothing_take(void) {
    size_t next = __atomic_load_n(&nothing.next, __ATOMIC_RELAXED) % N_NOTHING;
    size_t taken = N_NOTHING;
    for (size_t i = 0; nothing.start != NULL && taken == N_NOTHING && i <= N_WORDS; i++)
        taken = take_in((next / 64 + i) % N_WORDS, i == 0 ? next % 64 : 0);
    if (taken == N_NOTHING)
        return NULL;
    __atomic_store_n(&nothing.next, taken + 1, __ATOMIC_RELAXED);
    return nothing.start + taken * BLOCK_ALIGNMENT;
}

bool nothing_has(const void *block) {
    size_t offset = (size_t)((const char *)block - nothing.start);
    return nothing.start != NULL && offset < (size_t)N_NOTHING * BLOCK_ALIGNMENT;
}

bool nothing_free(const void *block) {
    if (!nothing_has(block))
        return false;
    size_t i = (size_t)((const char *)block - nothing.start) / BLOCK_ALIGNMENT;
    uint64_t bit = (uint64_t)1 << i % 64;
    if ((__atomic_fetch_and(&nothing.in_use[i / 64], ~bit, __ATOMIC_RELAXED) & bit) == 0)
        fatal("double free", block);
    return true;
}

size_t nothing_count(void) {
    size_t n = 0;
    for (size_t i = 0; nothing.start != NULL && i < N_WORDS; i++)
        n += (size_t)__builtin_popcountll(__atomic_load_n(&nothing.in_use[i], __ATOMIC_RELAXED));
    return n;
}
