/* canary.h - what lies behind the bytes that were asked for, with the setting secure.
 *
 *   | bytes asked for | fill | word |     a block of a size class; the word are its last 8 bytes
 *
 * The word says how long the fill is, mixed with a secret of the process and the address, and the
 * fill is its lowest byte, which is not zero.  So a write behind what was asked for is found, to
 * the byte, when the block is freed or resized or its size asked for; and a write before a block is
 * found when it is freed, as one behind the block before it.  Larger blocks end at a guard page
 * instead (guard.h).
 *
 * Limits: what is written farther away than the neighbour's last word is not seen; nor, of a free
 * neighbour, what is written as zero.
 */
#ifndef EXGEN_CANARY_H
#define EXGEN_CANARY_H

#include "base/options.h"

enum {
    CANARY_BYTES = 8
};

/* Bytes that a block of a size class needs more than were asked for. */
ALWAYS_INLINE size_t canary_bytes(void) {
    return options.secure ? CANARY_BYTES : 0;
}

/* Largest request that gets a block of a size class, with `secure`: with its word it is less than
 * what has a guard page of its own. */
size_t canary_largest_request(void);

/* Choose the secret; before the first block, with `secure`. */
void canary_init(void);

/* `size` bytes of the block were asked for; size + CANARY_BYTES <= block_bytes. */
void canary_set(void *block, size_t block_bytes, size_t size);

/* How many were; ends the program if anything was written behind them. */
size_t canary_size(const void *block, size_t block_bytes);

/* End the program if the end of the block before `block`, of the same slab, was written over.  That
 * block may be another thread's. */
void canary_check_before(const void *block, size_t block_bytes);

#endif
