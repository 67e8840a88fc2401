/* content.c - stamps and checks blocks; see content.h. */
#include "content.h"

#include <string.h> /* memcpy of one word, always inlined */

#define GOLDEN_GAMMA UINT64_C(0x9e3779b97f4a7c15) /* SplitMix64's increment */
#define WORD 8u

static inline uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint64_t content_word(uint64_t seed, uint32_t slot, uint32_t sequence) {
    uint64_t counter = ((uint64_t)slot << 32) | sequence;
    uint64_t word = mix(seed + (counter + 1) * GOLDEN_GAMMA);
    return word != 0 ? word : GOLDEN_GAMMA; /* a zero stamp would hide in fresh memory */
}

static inline void store(unsigned char *at, uint64_t word) {
    memcpy(at, &word, sizeof word);
}

static inline uint64_t load(const unsigned char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint64_t tail_word(uint64_t word) {
    return (word << 32) | (word >> 32);
}

static inline unsigned char byte_of(uint64_t word, uint64_t index) {
    return (unsigned char)(word >> (8 * index));
}

/* Offset of the first page boundary in a block that does not touch the head word. */
static inline uint64_t first_boundary(uintptr_t address) {
    uint64_t offset = (0 - address) & (PAGE_BYTES - 1);
    return offset >= WORD ? offset : offset + PAGE_BYTES;
}

void content_stamp(void *block, uint64_t bytes, uint64_t word, enum touch touch) {
    unsigned char *p = block;
    if (touch == TOUCH_NONE)
        return;
    if (bytes < WORD) {
        for (uint64_t i = 0; i < bytes; i++)
            p[i] = byte_of(word, i);
        return;
    }
    store(p, word);
    if (bytes < 2 * WORD)
        return;
    if (touch == TOUCH_ALL)
        for (uint64_t at = first_boundary((uintptr_t)p); at + 2 * WORD <= bytes; at += PAGE_BYTES)
            store(p + at, word + at);
    store(p + bytes - WORD, tail_word(word));
}

static inline bool swap_word(unsigned char *at, uint64_t word) {
    return __atomic_exchange_n((uint64_t *)(void *)at, word, __ATOMIC_RELAXED) == 0;
}

/* At most 7 bytes. */
static uint64_t stamp_zeroed_bytes(unsigned char *p, uint64_t bytes, uint64_t word) {
    uint64_t wrong = CONTENT_INTACT;
    for (uint64_t i = 0; i < bytes; i++)
        if (__atomic_exchange_n(p + i, byte_of(word, i), __ATOMIC_RELAXED) != 0)
            wrong = i;
    return wrong;
}

uint64_t content_stamp_zeroed(void *block, uint64_t bytes, uint64_t word, enum touch touch) {
    unsigned char *p = block;
    uint64_t wrong = CONTENT_INTACT;
    if (touch == TOUCH_NONE)
        return wrong;
    if (bytes < WORD)
        return stamp_zeroed_bytes(p, bytes, word);
    if (!swap_word(p, word))
        wrong = 0;
    if (bytes < 2 * WORD)
        return wrong;
    if (touch == TOUCH_ALL)
        for (uint64_t at = first_boundary((uintptr_t)p); at + 2 * WORD <= bytes; at += PAGE_BYTES)
            if (!swap_word(p + at, word + at))
                wrong = at;
    /* The tail word may be unaligned: look at the aligned word that holds its start. */
    uint64_t tail = (bytes - WORD) & ~(uint64_t)(WORD - 1);
    if (!swap_word(p + tail, tail_word(word)))
        wrong = tail;
    store(p + bytes - WORD, tail_word(word));
    return wrong;
}

/* Bytes [0, kept) of a block whose first bytes hold word; kept < 8. */
static uint64_t check_bytes(const unsigned char *p, uint64_t kept, uint64_t word) {
    for (uint64_t i = 0; i < kept; i++)
        if (p[i] != byte_of(word, i))
            return i;
    return CONTENT_INTACT;
}

/* One word of the checksum: order of the words counts, their sum does not cancel. */
static inline uint64_t fold(uint64_t sum, uint64_t word) {
    return (sum ^ word) * GOLDEN_GAMMA;
}

uint64_t content_check(const void *block, uintptr_t old_address, uint64_t old_bytes,
                       uint64_t kept_bytes, uint64_t word, enum touch touch, uint64_t *sum) {
    const unsigned char *p = block;
    *sum = fold(old_bytes, kept_bytes);
    if (touch == TOUCH_NONE)
        return CONTENT_INTACT;
    if (old_bytes < WORD || kept_bytes < WORD) {
        uint64_t kept = kept_bytes < WORD ? kept_bytes : WORD;
        for (uint64_t i = 0; i < kept; i++)
            *sum = fold(*sum, p[i]);
        return check_bytes(p, kept, word);
    }
    *sum = fold(*sum, load(p));
    if (load(p) != word)
        return 0;
    if (old_bytes < 2 * WORD)
        return CONTENT_INTACT;
    if (touch == TOUCH_ALL)
        for (uint64_t at = first_boundary(old_address);
             at + 2 * WORD <= old_bytes && at + WORD <= kept_bytes; at += PAGE_BYTES)
            if (load(p + at) != word + at)
                return at;
    if (kept_bytes < old_bytes)
        return CONTENT_INTACT;
    *sum = fold(*sum, load(p + old_bytes - WORD));
    return load(p + old_bytes - WORD) == tail_word(word) ? CONTENT_INTACT : old_bytes - WORD;
}
