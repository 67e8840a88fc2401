/* canary.c - words at the ends of blocks; see canary.h. */
#include "memory/canary.h"

#include <string.h>

#include "memory/link.h"
#include "memory/size_class.h"
#include "system/os.h"

/* All state of this module. */
static struct { uint64_t secret; } canaries;

void canary_init(void) {
    canaries.secret = os_random();
}

size_t canary_largest_request(void) {
    size_t most = classes.largest < os_page_bytes() ? classes.largest : os_page_bytes();
    return most - CANARY_BYTES;
}

/* Of any word that may stand there, for a fill of so many bytes: which is in it twice, so that no
 * single byte can say another length. */
static uint64_t word_of(const void *block, size_t n_fill) {
    uint64_t key = (canaries.secret ^ (uintptr_t)block) * 0x9e3779b97f4a7c15u;
    return (key ^ ((uint64_t)n_fill << 48 | (uint64_t)n_fill << 32)) | 1;
}

static uint64_t *last_word(const void *block, size_t block_bytes) {
    return (uint64_t *)((char *)block + block_bytes - CANARY_BYTES);
}

/* The length of the fill by the block's last word; SIZE_MAX if that was written over. */
static size_t fill_of(const void *block, size_t block_bytes, uint64_t word) {
    size_t n_fill = (size_t)((word ^ word_of(block, 0)) >> 48);
    return n_fill <= block_bytes - CANARY_BYTES && word == word_of(block, n_fill) ? n_fill
                                                                                  : SIZE_MAX;
}

void canary_set(void *block, size_t block_bytes, size_t size) {
    size_t n_fill = block_bytes - CANARY_BYTES - size;
    uint64_t word = word_of(block, n_fill);
    memset((char *)block + size, (unsigned char)word, n_fill);
    __atomic_store_n(last_word(block, block_bytes), word, __ATOMIC_RELAXED);
}

size_t canary_size(const void *block, size_t block_bytes) {
    uint64_t word = *last_word(block, block_bytes);
    size_t n_fill = fill_of(block, block_bytes, word);
    if (n_fill == SIZE_MAX)
        fatal("write behind the end of a block", block);
    size_t size = block_bytes - CANARY_BYTES - n_fill;
    for (size_t i = 0; i < n_fill; i++)
        if (((const unsigned char *)block)[size + i] != (unsigned char)word)
            fatal("write behind the end of a block", block);
    return size;
}

/* A free block ends with zeros or, if it is of two words only, with its mark. */
void canary_check_before(const void *block, size_t block_bytes) {
    const void *before = (const char *)block - block_bytes;
    uint64_t word = __atomic_load_n(last_word(before, block_bytes), __ATOMIC_RELAXED);
    if (word != 0 && word != layout.link_secret && fill_of(before, block_bytes, word) == SIZE_MAX)
        fatal("write before the start of a block", block);
}
