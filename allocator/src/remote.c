/* remote.c - lock-free return of blocks to their owners.
 *
 * A thread collects the blocks it frees for others in a few outboxes, each for
 * one heap, linked through their first words.  A full outbox (remote_batch), or
 * one that is needed for another heap, is sent: one compare-and-swap
 * puts the whole chain on the receiver's inbox.  The receiver takes the inbox
 * as a whole by one exchange, so there is no ABA problem, and frees what it finds
 * on its own slow path, neighbours of one slab in one step.  Slab data is only ever
 * written by the owner, and read by others for no more than one block of an outbox.
 *
 * Ownership may change between the look at it and the arrival (adoption); the
 * receiver then sends the block on.  Heaps are never unmapped, so a late block
 * always arrives somewhere.
 *
 * Bound on memory held back per thread that stops freeing: N_OUTBOXES * remote_batch
 * blocks, none of them with units of its own.
 */
#include "remote.h"

#include "link.h"
#include "options.h"
#include "supply.h"
#include "thread.h"

enum {
    OUTBOX_BYTES = 65536 /* aim for the size of an outbox, if its first block is typical */
};

static void push(struct heap *to, void *first, void *last) {
    void *head = __atomic_load_n(&to->inbox, __ATOMIC_RELAXED);
    do {
        link_set(last, head);
    } while (!__atomic_compare_exchange_n(&to->inbox, &head, first, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

static void send(struct heap *sender, struct outbox *box) {
    if (box->to == NULL)
        return;
    push(box->to, box->first, box->last);
    *box = (struct outbox){0};
    /* Nobody looks into the inbox of an orphan but the purger. */
    if (thread_has_orphans())
        supply_schedule_purge(sender);
}

/* How many blocks to collect in an outbox of `n` that `block` was put into. */
static size_t most_blocks(const void *block, size_t n) {
    const struct slab *slab = slab_of((uintptr_t)block);
    if (slab->class == CLASS_UNIT_RUN)
        return n;
    size_t most = OUTBOX_BYTES / slab->block_bytes;
    return most < options.remote_batch ? most : options.remote_batch;
}

void remote_free(struct heap *sender, void *block) {
    struct heap *to = superblock_owner(superblock_of((uintptr_t)block));
    if (sender == NULL) {
        push(to, block, block);
        return;
    }
    struct outbox *box = &sender->outboxes[to->number % N_OUTBOXES];
    if (box->to != to)
        send(sender, box);
    if (box->to == NULL) {
        box->to = to;
        box->last = block;
    }
    link_set(block, box->first);
    box->first = block;
    box->n_blocks++;
    /* The owner writes slab data all the time; look at it only if it may matter. */
    if (box->n_blocks == 1 || ((uintptr_t)block & (UNIT_BYTES - 1)) == 0)
        box->n_most = most_blocks(block, box->n_blocks);
    if (box->n_blocks >= box->n_most)
        send(sender, box);
}

void remote_flush(struct heap *sender) {
    for (size_t i = 0; i < N_OUTBOXES; i++)
        send(sender, &sender->outboxes[i]);
}

/* Free `block` and those that follow it in `pending` and lie in the same unit, at
 * most `n_most`; returns how many. */
static size_t free_neighbours(struct heap *heap, void *block, size_t n_most) {
    struct slab *unit = unit_slab_of((uintptr_t)block);
    void *last = block;
    size_t n = 1;
    for (void *next = heap->pending;
         next != NULL && unit_slab_of((uintptr_t)next) == unit && n < n_most; n++) {
        last = next;
        next = link_follow(next);
        heap->pending = next;
    }
    if (heap_free_chain(unit - unit->to_first, block, last, n))
        return n;
    for (size_t i = 0; i < n; i++) {
        void *next = i + 1 < n ? link_follow(block) : NULL;
        heap_free(heap, slab_of((uintptr_t)block), block);
        block = next;
    }
    return n;
}

void remote_drain_slowly(struct heap *heap, size_t n_most) {
    for (size_t n = 0; n < n_most;) {
        if (heap->pending == NULL)
            heap->pending = __atomic_exchange_n(&heap->inbox, NULL, __ATOMIC_ACQUIRE);
        void *block = heap->pending;
        if (block == NULL)
            return;
        heap->pending = link_follow(block);
        if (likely(superblock_owner(superblock_of((uintptr_t)block)) == heap)) {
            n += free_neighbours(heap, block, n_most - n);
        } else {
            remote_free(NULL, block);
            n++;
        }
    }
}
