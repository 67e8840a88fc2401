/* content.h - what the replayer writes into blocks and how it proves it is still there.
 *
 * Every block is stamped with words that follow from (seed, slot, operation), so
 * the expected contents are the same under every allocator: a head word, a tail
 * word, and one word at each page boundary, which also makes every page resident.
 * The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
 * number generators, OOPSLA 2014, doi 10.1145/2660193.2660195, section 3),
 * used as a hash of its counter.
 *
 * Limits: bytes between the stamped words are not written.  Blocks of 8 to 15 bytes
 * carry a head word only, shorter ones are stamped byte by byte.
 */
#ifndef RAND_MALLOC_CONTENT_H
#define RAND_MALLOC_CONTENT_H

#include "plan.h"

/* No offset is wrong. */
#define CONTENT_INTACT UINT64_MAX

/* The word of the sequence-th operation of a slot. */
uint64_t content_word(uint64_t seed, uint32_t slot, uint32_t sequence);

void content_stamp(void *block, uint64_t bytes, uint64_t word, enum touch touch);

/* Stamps a calloc block and reads the old words in the same instruction, so that a
 * fresh page costs one (write) fault as in content_stamp.  Returns the offset of a
 * word that was not zero, or CONTENT_INTACT. */
uint64_t content_stamp_zeroed(void *block, uint64_t bytes, uint64_t word, enum touch touch);

/* What was stamped when the block had old_bytes at old_address and has been kept up
 * to kept_bytes (<= old_bytes) is still in the block.  Returns the offset of the
 * first difference or CONTENT_INTACT; *sum gets the words read that do not depend on
 * addresses, mixed. */
uint64_t content_check(const void *block, uintptr_t old_address, uint64_t old_bytes,
                       uint64_t kept_bytes, uint64_t word, enum touch touch, uint64_t *sum);

#endif
