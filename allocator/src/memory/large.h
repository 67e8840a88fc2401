/* large.h - blocks that are mappings of their own. */
#ifndef EXGEN_LARGE_H
#define EXGEN_LARGE_H

#include "base/platform.h"

/* A block of at least `bytes` at a multiple of `alignment` (a power of two);
 * *is_zero: it reads as zero.  NULL if out of memory. */
void *large_allocate(size_t bytes, size_t alignment, bool *is_zero);

/* The same for a block that grows: where there is room behind it, if there is such a place. */
void *large_allocate_to_grow(size_t bytes);

/* False if `start` is no large block. */
bool large_free(void *start);

/* Usable bytes of the block, 0 if `start` is no large block. */
size_t large_bytes(const void *start);

/* Resize by moving pages, not bytes; NULL (and no change) if that cannot be. */
void *large_resize(void *start, size_t bytes);

/* Make a large block of `bytes` out of the pages of [start, start + old_bytes),
 * which stay mapped and read as zero.  NULL (and no change) if that cannot be. */
void *large_move_in(void *start, size_t old_bytes, size_t bytes);

/* Unmap kept blocks that are older than purge_delay, true if some are left, without waiting for
 * anybody; or all. */
bool large_purge(uint64_t now_ms);
void large_purge_all(void);

/* Blocks in use and their bytes. */
void large_count(size_t *n_blocks, size_t *n_bytes);

bool large_is_valid(void);

/* For the moment of a fork, so that the child finds the table whole. */
void large_lock(void);
void large_unlock(void);

#endif
