/* pool.c - empty superblocks between two owners; at most pool_superblocks of them.
 *
 * Superblocks enter and leave at the same end, so the ones at the other end are
 * the oldest and their pages have gone back to the system.  One that holds a heap stays, even
 * where it is one too many; then its units go back at once.
 */
#include "memory/pool.h"

#include "base/options.h"
#include "system/lock.h"
#include "system/os.h"

/* All state of this module. */
static struct {
    struct lock lock;
    struct superblock *first; /* through next; newest first */
    size_t n;
} pool;

struct superblock *pool_take(void) {
    if (__atomic_load_n(&pool.first, __ATOMIC_RELAXED) == NULL)
        return NULL;
    lock_take(&pool.lock);
    struct superblock *sb = pool.first;
    if (sb != NULL) {
        __atomic_store_n(&pool.first, sb->next, __ATOMIC_RELAXED);
        pool.n--;
    }
    lock_release(&pool.lock);
    return sb;
}

void pool_give(struct superblock *sb) {
    ASSERT(superblock_is_empty(sb));
    superblock_set_owner(sb, NULL, OWNER_NONE);
    if (options.purge_delay == 0)
        superblock_purge(sb, true);
    sb->pooled_ms = os_clock_ms();
    lock_take(&pool.lock);
    bool has_room = pool.n < options.pool_superblocks;
    bool keep = has_room || sb->holds_heap;
    if (!has_room && keep)
        superblock_purge(sb, true);
    if (keep) {
        sb->next = pool.first;
        __atomic_store_n(&pool.first, sb, __ATOMIC_RELAXED);
        pool.n++;
    }
    lock_release(&pool.lock);
    if (!keep)
        superblock_destroy(sb);
}

bool pool_purge(uint64_t now_ms) {
    bool left = false;
    lock_take(&pool.lock);
    for (struct superblock *sb = pool.first; sb != NULL; sb = sb->next) {
        if (now_ms >= sb->pooled_ms + options.purge_delay)
            superblock_purge(sb, true);
        else
            left = left || sb->n_dirty > 0;
    }
    lock_release(&pool.lock);
    return left;
}

void pool_empty(void) {
    struct superblock *staying = NULL;
    struct superblock *sb;
    while ((sb = pool_take()) != NULL) {
        if (sb->holds_heap) {
            sb->next = staying;
            staying = sb;
        } else {
            superblock_destroy(sb);
        }
    }
    while ((sb = staying) != NULL) {
        staying = sb->next;
        superblock_purge(sb, true);
        pool_give(sb);
    }
}

void pool_lock(void) {
    lock_take(&pool.lock);
}

void pool_unlock(void) {
    lock_release(&pool.lock);
}

size_t pool_count(void) {
    lock_take(&pool.lock);
    size_t n = pool.n;
    lock_release(&pool.lock);
    return n;
}
