/* remote.c - lock-free return of blocks to their owners.
 *
 * A thread collects the blocks it frees for others in a few outboxes, each for
 * one heap, linked through their first words.  A full outbox (remote_batch), or
 * one that is needed for another heap, is sent: one compare-and-swap
 * puts the whole chain on the receiver's inbox.  The receiver takes the inbox
 * as a whole by one exchange, so there is no ABA problem, and frees what it finds
 * on its own slow path.  Slab data is only ever touched by the owner.
 *
 * Ownership may change between the look at it and the arrival (adoption); the
 * receiver then sends the block on.  Heaps are never unmapped, so a late block
 * always arrives somewhere.
 *
 * Bound on memory held back: N_OUTBOXES * remote_batch blocks and
 * N_OUTBOXES * OUTBOX_BYTES bytes per thread that stops freeing.
 */
#include "remote.h"

#include "link.h"
#include "options.h"
#include "supply.h"
#include "thread.h"

enum {
    OUTBOX_BYTES = 65536 /* an outbox is sent when it holds a block this large, too */
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
    if (box->n_blocks >= options.remote_batch ||
        box->n_blocks * slab_of((uintptr_t)block)->block_bytes >= OUTBOX_BYTES)
        send(sender, box);
}

void remote_flush(struct heap *sender) {
    for (size_t i = 0; i < N_OUTBOXES; i++)
        send(sender, &sender->outboxes[i]);
}

void remote_drain_slowly(struct heap *heap, size_t n_most) {
    for (size_t n = 0; n < n_most; n++) {
        if (heap->pending == NULL)
            heap->pending = __atomic_exchange_n(&heap->inbox, NULL, __ATOMIC_ACQUIRE);
        void *block = heap->pending;
        if (block == NULL)
            return;
        heap->pending = link_follow(block);
        if (likely(superblock_owner(superblock_of((uintptr_t)block)) == heap))
            heap_free(heap, slab_of((uintptr_t)block), block);
        else
            remote_free(NULL, block);
    }
}
