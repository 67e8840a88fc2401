/* Stamps: intact blocks pass, any damage of a stamped word is found at its offset. */
#include "content.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t SIZES[] = {0,    1,    7,    8,    9,     15,    16,   17,
                                 4095, 4096, 4097, 8192, 12300, 65536, 65543};
#define N_SIZES (sizeof SIZES / sizeof SIZES[0])

static _Alignas(4096) unsigned char memory[1 << 18];
static int n_failed;

static void require(bool is_true, const char *what, uint64_t bytes, uint64_t shift) {
    if (is_true)
        return;
    n_failed++;
    fprintf(stderr, "%s: %" PRIu64 " bytes at shift %" PRIu64 "\n", what, bytes, shift);
}

/* Every damaged stamped byte is noticed; bytes that carry no stamp do not matter. */
static void check_damage(unsigned char *block, uint64_t bytes, uint64_t word) {
    uint64_t sum = 0, n_found = 0, n_quick = 0;
    for (uint64_t at = 0; at < bytes; at++) {
        block[at] ^= 0xff;
        n_found += content_check(block, (uintptr_t)block, bytes, bytes, word, TOUCH_ALL, &sum) !=
                   CONTENT_INTACT;
        n_quick += bytes >= CONTENT_WORD && !content_is_whole(block, bytes, word, TOUCH_ALL, true);
        block[at] ^= 0xff;
    }
    require(n_quick == (bytes >= CONTENT_WORD ? n_found : 0), "the quick check sees other damage",
            bytes, (uintptr_t)block & 4095);
    uint64_t n_stamped = bytes < 8 ? bytes : bytes < 16 ? 8 : 16;
    uint64_t first = (0 - (uintptr_t)block) & 4095;
    for (uint64_t at = first >= 8 ? first : first + 4096; bytes >= 16 && at + 16 <= bytes;
         at += 4096)
        n_stamped += 8;
    require(n_found == n_stamped, "damage not noticed", bytes, (uintptr_t)block & 4095);
}

/* What a counted run does with a block and finds in it is what the memory run does and finds. */
static void check_ends(unsigned char *block, uint64_t bytes, uint64_t word) {
    uint64_t sum = 0, sum_of_ends = 0;
    content_check(block, (uintptr_t)block, bytes, bytes, word, TOUCH_ALL, &sum);
    memset(memory, 0x5a, sizeof memory);
    content_stamp(block, bytes, word, TOUCH_ENDS);
    require(content_check(block, (uintptr_t)block, bytes, bytes, word, TOUCH_ENDS, &sum_of_ends) ==
                CONTENT_INTACT,
            "ends look damaged", bytes, (uintptr_t)block & 4095);
    require(sum == sum_of_ends, "the checksum depends on what is touched", bytes,
            (uintptr_t)block & 4095);
    for (uint64_t at = 4096; at + 16 <= bytes; at += 4096)
        require(block[at + 8] == 0x5a, "a page was touched", bytes, at);
}

static bool near(uint64_t kept, uint64_t boundary) {
    return kept + 40 > boundary && kept < boundary + 20;
}

/* A block that realloc moved to another place of a page keeps its stamps. */
static void check_move(unsigned char *block, uint64_t bytes, uint64_t word) {
    uint64_t sum = 0;
    static unsigned char moved[sizeof memory];
    uint64_t boundary = (0 - (uintptr_t)block) & 4095;
    for (uint64_t kept = 0; kept <= bytes; kept += near(kept, boundary) ? 1 : 9) {
        memset(moved, 0xaa, sizeof moved);
        memcpy(moved, block, kept);
        require(content_check(moved, (uintptr_t)block, bytes, kept, word, TOUCH_ALL, &sum) ==
                    CONTENT_INTACT,
                "a moved block looks damaged", bytes, kept);
    }
}

static void check_zeroed(unsigned char *block, uint64_t bytes, uint64_t word) {
    uint64_t sum = 0;
    memset(memory, 0, sizeof memory);
    require(content_stamp_zeroed(block, bytes, word, TOUCH_ALL) == CONTENT_INTACT,
            "zeroed memory looks dirty", bytes, 0);
    require(content_check(block, (uintptr_t)block, bytes, bytes, word, TOUCH_ALL, &sum) ==
                CONTENT_INTACT,
            "a stamped calloc block looks damaged", bytes, 0);
    memset(memory, 0, sizeof memory);
    if (bytes > 0) {
        block[0] = 1;
        require(content_stamp_zeroed(block, bytes, word, TOUCH_ALL) == 0, "dirt not noticed", bytes,
                0);
    }
}

/* Odd words leave zeros at page boundaries, even ones do not; both are checked. */
static void check_zeros(unsigned char *block, uint64_t bytes, uint64_t word) {
    uint64_t sum = 0, first = (0 - (uintptr_t)block) & 4095;
    uint64_t at = first >= 8 ? first : first + 4096;
    memset(memory, 0x5a, sizeof memory);
    content_stamp(block, bytes, word, TOUCH_ZEROS);
    require(content_check(block, (uintptr_t)block, bytes, bytes, word, TOUCH_ZEROS, &sum) ==
                CONTENT_INTACT,
            "an intact block looks damaged", bytes, word & 1);
    if (bytes < 16 || at + 16 > bytes)
        return;
    require((content_load(block + at) == 0) == ((word & 1) != 0), "zeros in the wrong block", bytes,
            word & 1);
    block[at] ^= 1;
    require(content_check(block, (uintptr_t)block, bytes, bytes, word, TOUCH_ZEROS, &sum) == at,
            "damage not noticed", bytes, word & 1);
}

static void check_checksum_is_portable(void) {
    uint64_t here = 0, there = 0;
    content_stamp(memory, 9000, 42, TOUCH_ALL);
    content_check(memory, (uintptr_t)memory, 9000, 9000, 42, TOUCH_ALL, &here);
    content_stamp(memory + 48, 9000, 42, TOUCH_ALL);
    content_check(memory + 48, (uintptr_t)(memory + 48), 9000, 9000, 42, TOUCH_ALL, &there);
    require(here == there && here != 0, "the checksum depends on the address", 9000, 48);
}

int main(void) {
    for (size_t i = 0; i < N_SIZES; i++)
        for (uint64_t shift = 0; shift < 64; shift += 16) {
            unsigned char *block = memory + 4096 - shift;
            uint64_t word = content_word(1, (uint32_t)i, 7), sum = 0;
            memset(memory, 0x5a, sizeof memory);
            content_stamp(block, SIZES[i], word, TOUCH_ALL);
            require(content_check(block, (uintptr_t)block, SIZES[i], SIZES[i], word, TOUCH_ALL,
                                  &sum) == CONTENT_INTACT,
                    "an intact block looks damaged", SIZES[i], shift);
            check_damage(block, SIZES[i], word);
            check_move(block, SIZES[i], word);
            check_ends(block, SIZES[i], word);
            check_zeroed(block, SIZES[i], word);
            check_zeros(block, SIZES[i], word | 1);
            check_zeros(block, SIZES[i], word & ~UINT64_C(1));
        }
    check_checksum_is_portable();
    if (n_failed == 0)
        puts("passed");
    return n_failed != 0;
}
