/* nothing.h - blocks of no bytes, with the setting secure.
 *
 * They are addresses in memory without access, so that a read or a write through one ends in
 * SIGSEGV.  There is room for N_NOTHING of them at once; when it is full, a block of no bytes is
 * one of the smallest class, as without `secure`.
 */
#ifndef EXGEN_NOTHING_H
#define EXGEN_NOTHING_H

#include "base/platform.h"

enum {
    N_NOTHING = 65536
};

/* Reserve the addresses; before the first block, with `secure`.  Where the system refuses there is
 * room for none. */
void nothing_init(void);

/* An address that no other block has, at a multiple of BLOCK_ALIGNMENT; NULL if there is no room.
 * One that was freed comes last. */
void *nothing_take(void);

/* False if `block` is none of them; ends the program if it was freed before. */
bool nothing_free(const void *block);

/* Whether `block` is one of them, freed or not. */
bool nothing_has(const void *block);

/* Those in use. */
size_t nothing_count(void);

#endif
