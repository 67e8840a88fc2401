/* pool.c - model: superblocks that two threads put into the pool come out once each, as they were
 * left. */
#include "model.h"

#include "memory/pool.c"

struct options options = {.pool_superblocks = 8, .purge_delay = 1};

static struct superblock superblocks[2];

void superblock_set_owner(struct superblock *sb, struct heap *owner, uint8_t number) {
    (void)number;
    sb->owner = owner;
}

bool superblock_destroy(struct superblock *sb, bool waits) {
    (void)sb;
    return waits;
}

bool superblock_leave_head(struct superblock *sb) {
    return sb->holds_heap;
}

void superblock_purge(struct superblock *sb, bool all) {
    (void)all;
    sb->n_dirty = 0;
}

uint64_t os_clock_ms(void) {
    return 7;
}

static _Atomic int n_taken[2];

static void take(void) {
    struct superblock *sb = pool_take();
    if (sb == NULL)
        return;
    assert(sb->pooled_ms == 7);
    sb->pooled_ms = 0;
    n_taken[sb - superblocks]++;
}

static void *give_and_take(void *i) {
    pool_give(&superblocks[i != NULL]);
    take();
    return NULL;
}

int main(void) {
    run_two(give_and_take, give_and_take);
    take();
    take();
    assert(n_taken[0] == 1 && n_taken[1] == 1);
    return 0;
}
