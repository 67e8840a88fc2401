/* misuse.h - the checks of check:true on pointers that a program hands back. */
#ifndef EXGEN_MISUSE_H
#define EXGEN_MISUSE_H

#include "memory/superblock.h"

/* End the program unless `block` starts a block of `slab` that is in use. */
void misuse_check_free(struct slab *slab, void *block);

/* End the program unless `size` is a request that `block` could have served. */
void misuse_check_size(void *block, size_t size);

#endif
