/* test_secure.c - what secure:true promises beyond the end of programs that err (test_misuse.c).
 *
 * Runs with secure:true.
 */
#include <string.h>

#include "exgen.h"
#include "memory/nothing.h"
#include "test.h"

/* To the byte, whatever the class of the block is: only so writes behind it are found. */
static void usable_size_is_what_was_asked_for(void) {
    for (size_t size = 1; size <= 4088; size++) {
        char *p = exgen_malloc(size);
        EXPECT(exgen_malloc_usable_size(p) == size);
        memset(p, 1, size);
        exgen_free_sized(p, size);
    }
    char *grown = exgen_malloc(1);
    for (size_t size = 2; size <= 9000; size += 13) {
        memset(grown, 2, size - 1 < 13 ? size - 1 : size - 13);
        grown = exgen_realloc(grown, size);
        EXPECT(exgen_malloc_usable_size(grown) >= size && grown[0] == 2);
    }
    for (size_t size = 9000; size > 0; size -= 9) {
        grown = exgen_realloc(grown, size);
        EXPECT(exgen_malloc_usable_size(grown) >= size && grown[0] == 2);
    }
    exgen_free(grown);
}

static void aligned_blocks_have_their_size(void) {
    for (size_t alignment = 16; alignment <= 65536; alignment *= 2)
        for (size_t size = 0; size < 10000; size += 499) {
            char *p = exgen_memalign(alignment, size);
            EXPECT(((uintptr_t)p & (alignment - 1)) == 0 && exgen_malloc_usable_size(p) >= size);
            memset(p, 3, size);
            exgen_free_aligned_sized(p, alignment, size);
        }
}

/* Whatever their alignment, so that they end at a guard page. */
static void aligned_blocks_of_a_page_are_mappings(void) {
    static const size_t sizes[] = {4089, 4096, 4200};
    for (size_t alignment = 32; alignment <= 4096; alignment *= 2)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t n_before = stats().n_large;
            void *p = exgen_memalign(alignment, sizes[i]);
            EXPECT(((uintptr_t)p & (alignment - 1)) == 0 && stats().n_large == n_before + 1);
            exgen_free(p);
        }
}

static size_t count_nonzero(const volatile char *bytes, size_t n) {
    size_t n_nonzero = 0;
    for (size_t i = 0; i < n; i++)
        n_nonzero += bytes[i] != 0;
    return n_nonzero;
}

/* But for the two words that a free block is linked and marked with. */
static void freed_blocks_are_cleared(void) {
    char *volatile p = exgen_malloc(200);
    memset(p, 'A', 200);
    exgen_free(p);
    EXPECT(count_nonzero(p + 16, 200 - 16) == 0);
    EXPECT(memcmp(p, "AAAAAAAA", 8) != 0 && memcmp(p + 8, "AAAAAAAA", 8) != 0);
}

static void new_blocks_are_clear(void) {
    for (size_t i = 0; i < 5000; i++) {
        char *p = exgen_malloc(48);
        EXPECT(count_nonzero(p, 48) == 0);
        memset(p, 'A', 48);
        exgen_free(p);
    }
}

/* As long as there is room; then they are ordinary blocks. */
static void blocks_of_no_bytes_differ(void) {
    enum {
        N = N_NOTHING + 100
    };
    static char *blocks[N];
    for (size_t i = 0; i < N; i++) {
        blocks[i] = i % 2 == 0 ? exgen_malloc(0) : exgen_calloc(0, 8);
        EXPECT(blocks[i] != NULL && exgen_malloc_usable_size(blocks[i]) == 0);
        EXPECT(nothing_has(blocks[i]) == (i < N_NOTHING));
        EXPECT(i == 0 || blocks[i] != blocks[i - 1]);
    }
    EXPECT(nothing_count() == N_NOTHING && exgen_check_leaks(0) >= N);
    exgen_free(blocks[7]);
    EXPECT((blocks[7] = exgen_malloc(0)) != NULL && nothing_has(blocks[7]));
    char *grown = exgen_realloc(blocks[8], 100);
    EXPECT(exgen_malloc_usable_size(grown) == 100);
    exgen_free(grown);
    for (size_t i = 0; i < N; i++)
        if (i != 8)
            exgen_free(blocks[i]);
    EXPECT(nothing_count() == 0);
}

/* The next of them is the one that was freed longest ago, not the last. */
static void addresses_come_back_late(void) {
    char *small = exgen_malloc(0);
    exgen_free(small);
    EXPECT(exgen_malloc(0) != small);
    char *large = exgen_malloc(1000000);
    exgen_free(large);
    for (size_t i = 0; i < 60; i++) {
        char *next = exgen_malloc(1000000);
        EXPECT(next != large);
        exgen_free(next);
    }
}

int main(void) {
    usable_size_is_what_was_asked_for();
    aligned_blocks_have_their_size();
    aligned_blocks_of_a_page_are_mappings();
    freed_blocks_are_cleared();
    new_blocks_are_clear();
    blocks_of_no_bytes_differ();
    addresses_come_back_late();
    EXPECT(exgen_validate_heap());
    return test_passed();
}
