/* misuse.h - the checks of check:true on pointers that a program hands back. */
#ifndef EXGEN_MISUSE_H
#define EXGEN_MISUSE_H

#include "memory/slab.h"

/* The block, of a size class, is handed out: it is not marked as free any more; with `junk` nothing
 * may have been written into it. */
void misuse_hand_out(void *block, size_t bytes);

/* End the program unless `block` starts a block of `slab` that is in use. */
void misuse_check_free(struct slab *slab, void *block);

#endif
