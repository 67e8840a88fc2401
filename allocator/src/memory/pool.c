/* pool.c - empty superblocks between two owners; at most pool_superblocks of them.
 *
 * Superblocks enter and leave at the same end, so the ones at the other end are
 * the oldest and their pages have gone back to the system.  Of one that holds a heap the head
 * stays, where it is one too many.
 *
 * They enter through a stack that one compare-and-swap extends, and are put in order by the thread
 * that takes one out, under the lock.  The system is called without it.
 */
#include "memory/pool.h"

#include "base/options.h"
#include "system/lock.h"
#include "system/os.h"

/* All state of this module. */
static struct {
    struct superblock *given; /* atomic: entered and not yet in order, through next */
    size_t n;                 /* atomic: of all, also those that are just purged */
    struct lock lock;
    struct superblock *first; /* atomic; through next, newest first */
} pool;

static bool is_empty(void) {
    return __atomic_load_n(&pool.first, __ATOMIC_RELAXED) == NULL &&
           __atomic_load_n(&pool.given, __ATOMIC_RELAXED) == NULL;
}

static void enter(struct superblock *sb) {
    struct superblock *top = __atomic_load_n(&pool.given, __ATOMIC_RELAXED);
    do {
        sb->next = top;
    } while (!__atomic_compare_exchange_n(&pool.given, &top, sb, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

static void set_first(struct superblock *sb) {
    __atomic_store_n(&pool.first, sb, __ATOMIC_RELAXED);
}

static void append(struct superblock *sb) {
    struct superblock *last = pool.first;
    while (last != NULL && last->next != NULL)
        last = last->next;
    sb->next = NULL;
    if (last != NULL)
        last->next = sb;
    else
        set_first(sb);
}

/* Put in order what has entered: the last comes first, what was purged last. */
static void sort_locked(void) {
    struct superblock *sb = __atomic_exchange_n(&pool.given, NULL, __ATOMIC_ACQUIRE);
    struct superblock *oldest = NULL;
    for (struct superblock *next; sb != NULL; sb = next) {
        next = sb->next;
        sb->next = oldest;
        oldest = sb;
    }
    for (struct superblock *next; oldest != NULL; oldest = next) {
        next = oldest->next;
        if (oldest->n_dirty == 0) {
            append(oldest);
        } else {
            oldest->next = pool.first;
            set_first(oldest);
        }
    }
}

struct superblock *pool_take(void) {
    if (is_empty())
        return NULL;
    lock_take(&pool.lock);
    sort_locked();
    struct superblock *sb = pool.first;
    if (sb != NULL) {
        set_first(sb->next);
        __atomic_sub_fetch(&pool.n, 1, __ATOMIC_RELAXED);
    }
    lock_release(&pool.lock);
    return sb;
}

void pool_give(struct superblock *sb) {
    ASSERT(superblock_is_empty(sb));
    superblock_set_owner(sb, NULL, OWNER_NONE);
    bool has_room = __atomic_add_fetch(&pool.n, 1, __ATOMIC_RELAXED) <= options.pool_superblocks;
    if (!has_room && !sb->holds_heap && superblock_destroy(sb, false)) {
        __atomic_sub_fetch(&pool.n, 1, __ATOMIC_RELAXED);
        return;
    }
    if (!has_room && sb->holds_heap && superblock_leave_head(sb)) {
        __atomic_sub_fetch(&pool.n, 1, __ATOMIC_RELAXED);
        return;
    }
    if (!has_room || options.purge_delay == 0)
        superblock_purge(sb, true);
    sb->pooled_ms = os_clock_ms();
    enter(sb);
}

/* Take out what is to be purged, linked; *is_left: some waits for later. */
static struct superblock *take_due_locked(uint64_t now_ms, bool *is_left) {
    struct superblock *due = NULL;
    struct superblock *kept = NULL;
    for (struct superblock *sb = pool.first, *next; sb != NULL; sb = next) {
        next = sb->next;
        if (sb->n_dirty > 0 && now_ms >= sb->pooled_ms + options.purge_delay) {
            if (kept != NULL)
                kept->next = next;
            else
                set_first(next);
            sb->next = due;
            due = sb;
        } else {
            *is_left = *is_left || sb->n_dirty > 0;
            kept = sb;
        }
    }
    return due;
}

bool pool_purge(uint64_t now_ms) {
    bool is_left = false;
    if (is_empty())
        return false;
    if (!lock_try(&pool.lock))
        return true;
    sort_locked();
    struct superblock *due = take_due_locked(now_ms, &is_left);
    lock_release(&pool.lock);
    for (struct superblock *next; due != NULL; due = next) {
        next = due->next;
        superblock_purge(due, true);
        enter(due);
    }
    return is_left;
}

void pool_empty(void) {
    struct superblock *staying = NULL;
    struct superblock *sb;
    while ((sb = pool_take()) != NULL) {
        if (sb->holds_heap) {
            sb->next = staying;
            staying = sb;
        } else {
            superblock_destroy(sb, true);
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
    return __atomic_load_n(&pool.n, __ATOMIC_RELAXED);
}
