/* pool.h - empty superblocks that no heap owns, shared by all threads. */
#ifndef EXGEN_POOL_H
#define EXGEN_POOL_H

#include "memory/superblock.h"

/* An empty superblock, or NULL. */
struct superblock *pool_take(void);

/* Hand over an empty superblock, which is in no list of a heap.  Never waits. */
void pool_give(struct superblock *sb);

/* Give memory back that lies in the pool for longer than purge_delay.  True if
 * some is left for later.  Never waits. */
bool pool_purge(uint64_t now_ms);

/* Unmap everything in the pool that may be, and give back the rest. */
void pool_empty(void);

/* For the moment of a fork, so that the child finds the pool whole. */
void pool_lock(void);
void pool_unlock(void);

size_t pool_count(void);

#endif
