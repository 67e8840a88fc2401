/* remote.c - what becomes of blocks that a thread frees and does not own.
 *
 * They go onto a list of the thread, by size class, which malloc takes over when what the thread
 * freed of its own is used up.  When a batch has come meanwhile (remote_batch), or more if malloc
 * does use the list, they go to the exchange, where their owner and every other thread find
 * them.  Home, into the slabs they are from, go blocks the exchange has no room for, those not
 * wanted for a while, and those with units of their own: linked through their first words, one
 * compare-and-swap puts a chain on the owner's inbox.  The owner takes the inbox as a whole by one
 * exchange, so there is no ABA problem, and frees what it finds on its own slow path, neighbours of
 * one slab in one step.  Slab data is only ever written by the owner; others read what does not
 * change while one of its blocks is in use.
 *
 * Ownership may change between the look at it and the arrival (adoption); the
 * receiver then sends the block on.  Heaps are never unmapped, so a late block
 * always arrives somewhere.
 *
 * Bound on memory held back per thread that stops freeing: of each class a batch, N_BATCHES_USED
 * if it used such blocks, each of remote_batch blocks and, but for one block, of BATCH_BYTES at
 * most.
 */
#include "thread/remote.h"

#include "base/options.h"
#include "heap/supply.h"
#include "memory/link.h"
#include "thread/exchange.h"
#include "thread/registry.h"

enum {
    BATCH_BYTES = 8192,  /* of the blocks that come from or go to the exchange at a time */
    N_BATCHES_USED = 8,  /* on a list that malloc uses */
    N_BATCHES_ALL = 256, /* the same for all heaps together, but for two each */
    N_HOME = 64          /* blocks sent home, or flushed, at a time */
};

/* --- home --- */

static void push(struct heap *to, void *first, void *last) {
    void *head = __atomic_load_n(&to->inbox, __ATOMIC_RELAXED);
    do {
        link_set(last, head);
    } while (!__atomic_compare_exchange_n(&to->inbox, &head, first, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

static void send_home(void *const *blocks, size_t n) {
    for (size_t i = 0; i < n;) {
        struct heap *to = superblock_owner(superblock_of((uintptr_t)blocks[i]));
        void *first = blocks[i];
        void *last = first;
        for (i++; i < n && superblock_owner(superblock_of((uintptr_t)blocks[i])) == to; i++) {
            link_set(blocks[i], first);
            first = blocks[i];
        }
        push(to, first, last);
    }
}

bool remote_send_idle_home(uint64_t now_ms) {
    void *blocks[N_HOME];
    size_t n = exchange_take_idle(now_ms, blocks, N_HOME);
    send_home(blocks, n);
    return n > 0;
}

void remote_send_all_home(struct heap *sender) {
    void *blocks[N_HOME];
    size_t n;
    remote_flush(sender);
    while ((n = exchange_take_any(blocks, N_HOME)) > 0)
        send_home(blocks, n);
}

void remote_free_slowly(struct heap *heap, void *block) {
    send_home(&block, 1);
    if (heap != NULL && registry_has_orphans())
        supply_schedule_purge(heap);
}

/* --- others --- */

/* Most blocks of a size class that may come from or go to the exchange at a time. */
static size_t most_batch(size_t class) {
    size_t n = BATCH_BYTES / classes.of[class].block_bytes;
    return n == 0 ? 1 : n;
}

/* Blocks of a size class that come from or go to the exchange at a time. */
static size_t n_batch(size_t class) {
    size_t n = most_batch(class);
    return n < options.remote_batch ? n : options.remote_batch;
}

size_t remote_most_batch(void) {
    return most_batch(0);
}

/* The first blocks of a list, up to `n`; returns how many. */
static size_t first_blocks(void *block, void **blocks, size_t n) {
    size_t i = 0;
    for (; block != NULL && i < n; block = link_follow(block))
        blocks[i++] = block;
    return i;
}

/* Free those of the blocks that are the thread's own, see free_mixed; returns how many are left. */
static size_t free_own(struct heap *heap, void **blocks, size_t n) {
    size_t n_others = 0;
    for (size_t i = 0; i < n; i++)
        if (owner_at((uintptr_t)blocks[i]) == local.own_number)
            heap_free(heap, slab_of((uintptr_t)blocks[i]), blocks[i]);
        else
            blocks[n_others++] = blocks[i];
    return n_others;
}

void remote_add_marked(struct heap *heap, size_t class, void *block) {
    if (heap_lists(heap, &local, slab_of((uintptr_t)block), block))
        fatal("double free", block);
    link_unmark(block);
    remote_add(heap, class, block);
}

static void let_go(struct heap *heap, size_t class, void **blocks, size_t n) {
    n = free_own(heap, blocks, n);
    if (n == 0)
        return;
    size_t stripe = owner_at((uintptr_t)blocks[0]);
    size_t n_put = exchange_put(class, stripe, blocks, n, n_batch(class));
    send_home(blocks + n_put, n - n_put);
    /* A thread must look at the exchange, and into the inboxes of orphans. */
    supply_schedule_purge(heap);
}

/* How long the list may become of a thread that uses what is on it: long enough that frees which
 * come before the mallocs that they serve do not empty it, and for all heaps together no longer
 * than N_BATCHES_ALL. */
static size_t n_most_used(size_t class) {
    size_t n = N_BATCHES_ALL / registry_count_threads();
    n = n > N_BATCHES_USED ? N_BATCHES_USED : n < 2 ? 2 : n;
    return n * n_batch(class);
}

void remote_consider_unmixed_slowly(struct heap *heap) {
    enum {
        N_UNMIXED = 64
    };
    if (++heap->n_unmixed < N_UNMIXED)
        return;
    local.mixed = NULL;
    local.number = local.own_number;
}

void remote_flush_list(struct heap *heap, void *block) {
    void *blocks[N_HOME];
    size_t n;
    for (; (n = first_blocks(block, blocks, N_HOME)) > 0;) {
        block = link_follow(blocks[n - 1]);
        let_go(heap, slab_of((uintptr_t)blocks[0])->class, blocks, n);
    }
}

void remote_shed(struct heap *heap, size_t class) {
    struct foreign *list = &heap->bins[class].foreign;
    size_t n = list->most + 1U;
    size_t most = list->was_used ? n_most_used(class) : n_batch(class);
    if (n >= most) {
        remote_flush_list(heap, foreign_take(list));
        list->was_used = false;
        most = n_batch(class);
        n = 0;
    }
    list->most = (uint16_t)(most - 1);
    list->countdown = (int32_t)(most - n) - 1;
}

void remote_return_lists(struct heap *heap, struct local *from) {
    for (size_t class = 0; class < classes.n_classes; class ++)
        remote_flush_list(heap, heap_return_list(heap, from, class));
}

void remote_flush(struct heap *heap) {
    for (size_t class = 0; class < classes.n_classes; class ++)
        remote_flush_list(heap, foreign_take(&heap->bins[class].foreign));
}

/* --- back into use --- */

/* Make the blocks the ready list, the first apart, which is returned. */
static void *make_ready(struct heap *heap, size_t class, void *const *blocks, size_t n) {
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(blocks[i], 1);
    for (size_t i = 1; i < n; i++)
        link_set(blocks[i], i + 1 < n ? blocks[i + 1] : NULL);
    *ready_list(heap, &local, class) = n > 1 ? blocks[1] : NULL;
    if (n == 0)
        return NULL;
    hand_out(blocks[0]);
    return blocks[0];
}

void *remote_take_freed(struct heap *heap, size_t class) {
    void *block = foreign_take_for_use(heap, class);
    if (block == NULL)
        return NULL;
    *ready_list(heap, &local, class) = link_follow(block);
    hand_out(block);
    return block;
}

void *remote_take_slowly(struct heap *heap, size_t class) {
    void *blocks[N_SEGMENT];
    return make_ready(heap, class, blocks, exchange_take(class, heap->number, blocks));
}

void *remote_take_anywhere_slowly(struct heap *heap, size_t class) {
    void *blocks[N_SEGMENT];
    return make_ready(heap, class, blocks, exchange_take_anywhere(class, heap->number, blocks));
}

/* The next block that others sent home, which is the first of `pending`; NULL if there is none. */
static void *next_sent(struct heap *heap) {
    if (heap->pending == NULL)
        heap->pending = __atomic_exchange_n(&heap->inbox, NULL, __ATOMIC_ACQUIRE);
    return heap->pending;
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
    if (heap_free_chain(slab_of((uintptr_t)block), block, last, n))
        return n;
    for (size_t i = 0; i < n; i++) {
        void *next = i + 1 < n ? link_follow(block) : NULL;
        heap_free(heap, slab_of((uintptr_t)block), block);
        block = next;
    }
    return n;
}

/* Free a block that others sent, and with it others of its slab, up to `n_most`; returns how many.
 */
static size_t free_sent(struct heap *heap, void *block, size_t n_most) {
    if (likely(superblock_owner(superblock_of((uintptr_t)block)) == heap))
        return free_neighbours(heap, block, n_most);
    send_home(&block, 1);
    return 1;
}

void remote_drain_slowly(struct heap *heap, size_t n_most) {
    void *block;
    for (size_t n = 0; n < n_most && (block = next_sent(heap)) != NULL;) {
        heap->pending = link_follow(block);
        n += free_sent(heap, block, n_most - n);
    }
}

void *remote_take_sent_slowly(struct heap *heap, size_t class) {
    void *blocks[N_DRAINED];
    size_t n_taken = 0;
    void *block;
    for (size_t n = 0; n < N_DRAINED && (block = next_sent(heap)) != NULL;) {
        heap->pending = link_follow(block);
        if (class_of_block((uintptr_t)block) == class) {
            blocks[n_taken++] = block;
            n++;
        } else {
            n += free_sent(heap, block, N_DRAINED - n);
        }
    }
    return make_ready(heap, class, blocks, n_taken);
}
