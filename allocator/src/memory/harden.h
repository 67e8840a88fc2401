/* harden.h - what the settings secure, junk and quarantine add to the slow paths.
 *
 * junk        a freed block is filled with a pattern, which is verified when the block
 *             leaves the quarantine and when it is handed out again.
 * quarantine  a freed block waits among others and leaves in random order.
 * secure      both of these, check, random order inside slabs, and guard pages
 *             behind slabs, at both ends of superblocks' blocks and behind large blocks.
 *
 * All of them need check, with which malloc and free never take the common path, so
 * they cost nothing where they are off.  The address of a free block, XOR a secret,
 * stands in its second word: with junk a free that finds it is a double free for certain.
 */
#ifndef EXGEN_HARDEN_H
#define EXGEN_HARDEN_H

#include "heap/heap.h"

/* What the second word of a freed block says. */
uintptr_t harden_mark(const void *block);

/* Fill a block that was freed, or verify that nothing was written since. */
void harden_fill(void *block, size_t bytes);
void harden_verify(const void *block, size_t bytes);

/* Verify a block from a list, whose first word is its link, and take off the mark. */
void harden_hand_out(void *block, size_t bytes);

/* Link `n` new blocks of a slab in random order; returns the first. */
void *harden_shuffle(struct heap *heap, char *first, size_t n, size_t block_bytes);

/* Bytes that a guard takes from the end of a slab or head: a page, or 0 without `secure`. */
size_t harden_guard_bytes(void);

/* Forbid, and allow again, all access to the last page before `end`. */
void harden_guard(char *end);
void harden_unguard(char *end);

/* Hold a freed block back.  Returns the one that may go for it, or NULL. */
void *quarantine_exchange(struct heap *heap, void *block);

bool quarantine_has(const struct heap *heap, const void *block);

/* Free all blocks that `heap` holds back. */
void quarantine_flush(struct heap *heap);

#endif
