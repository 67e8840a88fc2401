/* content.h - what the replayer writes into blocks and how it proves it is still there.
 *
 * Every block is stamped with words that follow from (seed, slot, operation), so
 * the expected contents are the same under every allocator: a head word, a tail
 * word, and one word at each page boundary, which also makes every page resident.  Programs
 * leave many pages zero that they wrote; the kernel can drop these from huge pages.  With
 * TOUCH_ZEROS the words at page boundaries are zeros in every other block.
 * The word is a multiplicative hash (Knuth, The Art of Computer Programming 3, section 6.4) of
 * slot and operation with the golden ratio, its halves mixed: two operations never share one but
 * for the top bit, which is set.
 *
 * A block that was touched in part is stamped like one that ends with that part.
 *
 * All inline: this is most of the harness's work, and it runs under instruments too.
 *
 * Limits: bytes between the stamped words are not written.  Blocks of 8 to 15 bytes
 * carry a head word only, shorter ones are stamped byte by byte.
 */
#ifndef RAND_MALLOC_CONTENT_H
#define RAND_MALLOC_CONTENT_H

#include "plan.h"

#include <stdbool.h>
#include <string.h> /* memcpy of one word, always inlined */

/* No offset is wrong. */
#define CONTENT_INTACT UINT64_MAX

#define CONTENT_GOLDEN_GAMMA UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio */
#define CONTENT_WORD         UINT64_C(8)

/* The word of the sequence-th operation of a slot; never 0, which would hide in fresh memory. */
static inline uint64_t content_word(uint64_t seed, uint32_t slot, uint32_t sequence) {
    uint64_t counter = ((uint64_t)slot << 32) | sequence;
    uint64_t word = seed + (counter + 1) * CONTENT_GOLDEN_GAMMA;
    return (word ^ (word >> 32)) | UINT64_C(1) << 63;
}

static inline void content_store(unsigned char *at, uint64_t word) {
    memcpy(at, &word, sizeof word);
}

static inline uint64_t content_load(const unsigned char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint64_t content_tail_word(uint64_t word) {
    return (word << 32) | (word >> 32);
}

static inline unsigned char content_byte_of(uint64_t word, uint64_t index) {
    return (unsigned char)(word >> (8 * index));
}

/* Offset of the first page boundary in a block that does not touch the head word. */
static inline uint64_t content_first_boundary(uintptr_t address) {
    uint64_t offset = (0 - address) & (PAGE_BYTES - 1);
    return offset >= CONTENT_WORD ? offset : offset + PAGE_BYTES;
}

static inline bool content_has_pages(enum touch touch) {
    return touch == TOUCH_ALL || touch == TOUCH_ZEROS || touch == TOUCH_RECORDED;
}

/* The word at a page boundary, at bytes into a block. */
static inline uint64_t content_page_word(uint64_t word, uint64_t at, enum touch touch) {
    return touch == TOUCH_ZEROS && (word & 1) != 0 ? 0 : word + at;
}

/* A block of a word or more. */
static inline void content_stamp_words(void *block, uint64_t bytes, uint64_t word, enum touch touch,
                                       bool has_pages) {
    unsigned char *p = block;
    content_store(p, word);
    if (bytes < 2 * CONTENT_WORD)
        return;
    if (has_pages)
        for (uint64_t at = content_first_boundary((uintptr_t)p); at + 2 * CONTENT_WORD <= bytes;
             at += PAGE_BYTES)
            content_store(p + at, content_page_word(word, at, touch));
    content_store(p + bytes - CONTENT_WORD, content_tail_word(word));
}

static inline void content_stamp(void *block, uint64_t bytes, uint64_t word, enum touch touch) {
    unsigned char *p = block;
    if (touch == TOUCH_NONE)
        return;
    if (bytes >= CONTENT_WORD)
        content_stamp_words(p, bytes, word, touch, content_has_pages(touch));
    else
        for (uint64_t i = 0; i < bytes; i++)
            p[i] = content_byte_of(word, i);
}

static inline bool content_swap_word(unsigned char *at, uint64_t word) {
    return __atomic_exchange_n((uint64_t *)(void *)at, word, __ATOMIC_RELAXED) == 0;
}

/* At most 7 bytes. */
static inline uint64_t content_stamp_zeroed_bytes(unsigned char *p, uint64_t bytes, uint64_t word) {
    uint64_t wrong = CONTENT_INTACT;
    for (uint64_t i = 0; i < bytes; i++)
        if (__atomic_exchange_n(p + i, content_byte_of(word, i), __ATOMIC_RELAXED) != 0)
            wrong = i;
    return wrong;
}

/* Stamps a calloc block and reads the old words in the same instruction, so that a
 * fresh page costs one (write) fault as in content_stamp.  Returns the offset of a
 * word that was not zero, or CONTENT_INTACT. */
static inline uint64_t content_stamp_zeroed(void *block, uint64_t bytes, uint64_t word,
                                            enum touch touch) {
    unsigned char *p = block;
    uint64_t wrong = CONTENT_INTACT;
    if (touch == TOUCH_NONE)
        return wrong;
    if (bytes < CONTENT_WORD)
        return content_stamp_zeroed_bytes(p, bytes, word);
    if (!content_swap_word(p, word))
        wrong = 0;
    if (bytes < 2 * CONTENT_WORD)
        return wrong;
    if (content_has_pages(touch))
        for (uint64_t at = content_first_boundary((uintptr_t)p); at + 2 * CONTENT_WORD <= bytes;
             at += PAGE_BYTES)
            if (!content_swap_word(p + at, content_page_word(word, at, touch)))
                wrong = at;
    /* The tail word may be unaligned: look at the aligned word that holds its start. */
    uint64_t tail = (bytes - CONTENT_WORD) & ~(uint64_t)(CONTENT_WORD - 1);
    if (!content_swap_word(p + tail, content_tail_word(word)))
        wrong = tail;
    content_store(p + bytes - CONTENT_WORD, content_tail_word(word));
    return wrong;
}

/* Bytes [0, kept) of a block whose first bytes hold word; kept < 8. */
static inline uint64_t content_check_bytes(const unsigned char *p, uint64_t kept, uint64_t word) {
    for (uint64_t i = 0; i < kept; i++)
        if (p[i] != content_byte_of(word, i))
            return i;
    return CONTENT_INTACT;
}

/* One word of the checksum: order of the words counts, their sum does not cancel. */
static inline uint64_t content_fold(uint64_t sum, uint64_t word) {
    return (sum ^ word) * CONTENT_GOLDEN_GAMMA;
}

/* The sum of a block of a word or more, of which at least one was kept. */
static inline uint64_t content_sum(const void *block, uint64_t old_bytes, uint64_t kept_bytes) {
    const unsigned char *p = block;
    uint64_t sum = content_fold(content_fold(old_bytes, kept_bytes), content_load(p));
    bool has_tail = old_bytes >= 2 * CONTENT_WORD && kept_bytes >= old_bytes;
    return has_tail ? content_fold(sum, content_load(p + old_bytes - CONTENT_WORD)) : sum;
}

/* Is every stamp of a block of a word or more intact that has not moved? */
static inline bool content_is_whole(const void *block, uint64_t bytes, uint64_t word,
                                    enum touch touch, bool has_pages) {
    const unsigned char *p = block;
    uint64_t wrong = content_load(p) ^ word;
    if (bytes < 2 * CONTENT_WORD)
        return wrong == 0;
    wrong |= content_load(p + bytes - CONTENT_WORD) ^ content_tail_word(word);
    if (has_pages)
        for (uint64_t at = content_first_boundary((uintptr_t)p); at + 2 * CONTENT_WORD <= bytes;
             at += PAGE_BYTES)
            wrong |= content_load(p + at) ^ content_page_word(word, at, touch);
    return wrong == 0;
}

/* What was stamped when the block had old_bytes at old_address and has been kept up
 * to kept_bytes (<= old_bytes) is still in the block.  Returns the offset of the
 * first difference or CONTENT_INTACT; *sum gets the words read that do not depend on
 * addresses, mixed. */
static inline uint64_t content_check(const void *block, uintptr_t old_address, uint64_t old_bytes,
                                     uint64_t kept_bytes, uint64_t word, enum touch touch,
                                     uint64_t *sum) {
    const unsigned char *p = block;
    *sum = content_fold(old_bytes, kept_bytes);
    if (touch == TOUCH_NONE)
        return CONTENT_INTACT;
    if (old_bytes < CONTENT_WORD || kept_bytes < CONTENT_WORD) {
        uint64_t kept = kept_bytes < CONTENT_WORD ? kept_bytes : CONTENT_WORD;
        for (uint64_t i = 0; i < kept; i++)
            *sum = content_fold(*sum, p[i]);
        return content_check_bytes(p, kept, word);
    }
    *sum = content_sum(p, old_bytes, kept_bytes);
    if (content_load(p) != word)
        return 0;
    if (old_bytes < 2 * CONTENT_WORD)
        return CONTENT_INTACT;
    if (content_has_pages(touch))
        for (uint64_t at = content_first_boundary(old_address);
             at + 2 * CONTENT_WORD <= old_bytes && at + CONTENT_WORD <= kept_bytes;
             at += PAGE_BYTES)
            if (content_load(p + at) != content_page_word(word, at, touch))
                return at;
    if (kept_bytes < old_bytes)
        return CONTENT_INTACT;
    return content_load(p + old_bytes - CONTENT_WORD) == content_tail_word(word)
               ? CONTENT_INTACT
               : old_bytes - CONTENT_WORD;
}

#endif
