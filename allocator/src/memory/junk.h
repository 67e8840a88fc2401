/* junk.h - what the setting junk writes into free blocks, and the random order of `secure`.
 *
 * A freed block is filled with a pattern (with `secure` with zeros, so that nothing can be read
 * from it later), which is verified when the block leaves the quarantine and when it is handed out
 * again.  In its second word stands the mark of link.h: with junk a free that finds it is a double
 * free for certain.
 *
 * All of this needs check, with which malloc and free never take the common path, so
 * it costs nothing where it is off.
 */
#ifndef EXGEN_JUNK_H
#define EXGEN_JUNK_H

#include "base/platform.h"

/* Fill a block that was freed, or verify that nothing was written since. */
void junk_fill(void *block, size_t bytes);
void junk_verify(const void *block, size_t bytes);

/* Verify a block from a list, whose first word is its link, and take off the mark. */
void junk_hand_out(void *block, size_t bytes);

/* Link `n` new blocks of a slab in random order, drawn from random.h's `state`; returns the
 * first. */
void *junk_shuffle(uint64_t *state, char *first, size_t n, size_t block_bytes);

#endif
