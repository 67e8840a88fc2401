/* remote.c - what becomes of blocks that a thread frees and does not own.
 *
 * Their addresses are collected in batches of the thread, by size class, and the blocks are not
 * touched: their lines are often in another processor's cache.  A full batch (remote_batch) goes to
 * the exchange, where the blocks' owners and every other thread find them.  Malloc takes over a
 * batch when what the thread freed of its own is used up; from then on the thread puts others'
 * blocks, and its own, onto a list for malloc, which may become longer.  Home, into the slabs they
 * are from (inbox.h), go blocks the exchange has no room for, those not wanted for a while, and
 * those with units of their own.  The owner frees them on its own slow path, neighbours of one slab
 * in one step.  Slab data is only ever written by the owner; others read what does not change while
 * one of its blocks is in use.
 *
 * Bound on memory held back per thread that stops freeing: of each class a batch, and another, or
 * N_BATCHES_USED if it used such blocks, on the list, each of remote_batch blocks (the first of
 * N_SEGMENT at most) and, but for one block, of BATCH_BYTES at most.
 */
#include "thread/remote.h"

#include <string.h>

#include "base/options.h"
#include "heap/supply.h"
#include "memory/link.h"
#include "thread/exchange.h"
#include "thread/inbox.h"
#include "thread/registry.h"

enum {
    BATCH_BYTES = 8192,  /* of the blocks that come from or go to the exchange at a time */
    N_BATCHES_USED = 8,  /* on a list that malloc uses */
    N_BATCHES_ALL = 256, /* the same for all heaps together, but for two each */
    N_HOME = 64          /* blocks sent home at a time */
};

_Static_assert(N_GROUP * sizeof(struct batch) <= N_SEGMENT * sizeof(void *) &&
                   (int)N_GROUPS <= (int)N_SEGMENT,
               "a group is a segment, and their addresses are one");

/* --- home --- */

bool remote_send_idle_home(uint64_t now_ms) {
    void *blocks[N_HOME];
    size_t n = exchange_take_idle(now_ms, blocks, N_HOME);
    inbox_send(blocks, n);
    return n > 0;
}

void remote_send_all_home(struct heap *sender) {
    void *blocks[N_HOME];
    size_t n;
    if (sender != NULL)
        remote_flush(sender);
    while ((n = exchange_take_any(blocks, N_HOME)) > 0)
        inbox_send(blocks, n);
}

bool remote_free_slowly(struct heap *heap, void *block) {
    inbox_send(&block, 1);
    if (heap != NULL && registry_has_orphans())
        supply_schedule_purge(heap);
    return true;
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

bool remote_add_marked(struct heap *heap, size_t class, void *block) {
    if (heap_lists(heap, &local, slab_of((uintptr_t)block), block))
        fatal("double free", block);
    link_unmark(block);
    return remote_add(heap, class, block);
}

/* What was found of the block before, which mostly lies in the same superblock as the next. */
struct neighbour {
    uintptr_t superblock;
    bool is_own;
    uint8_t number; /* that own blocks have */
};

/* Before the first block of a heap, which is the thread's or parked. */
static struct neighbour no_neighbour(const struct heap *heap) {
    uint8_t number = heap->number == OWNER_IN_HEAD ? OWNER_NOBODY : heap->number;
    return (struct neighbour){0, false, heap == local.heap ? local.own_number : number};
}

ALWAYS_INLINE bool is_own(const void *block, struct neighbour *before) {
    uintptr_t superblock = (uintptr_t)block & layout.base_mask;
    if (superblock != before->superblock) {
        before->superblock = superblock;
        before->is_own = owner_at((uintptr_t)block) == before->number;
    }
    return before->is_own;
}

/* Write down the first of a list that are not the heap's own, up to `n_most` of them, which
 * become a list of their own; the heap's own among them are freed.  Returns how many there are,
 * and goes on with `*rest`. */
static size_t split_others(struct heap *heap, void **rest, void **others, size_t n_most) {
    struct neighbour before = no_neighbour(heap);
    size_t n = 0;
    for (void *block = *rest; block != NULL && n < n_most; block = *rest) {
        *rest = link_follow(block);
        if (is_own(block, &before)) {
            heap_free(heap, slab_of((uintptr_t)block), block);
            continue;
        }
        if (n > 0)
            link_set(others[n - 1], block);
        others[n++] = block;
    }
    if (n > 0)
        link_set(others[n - 1], NULL);
    return n;
}

static bool is_among(void *const *blocks, size_t n, const void *block) {
    for (size_t i = 0; i < n; i++)
        if (blocks[i] == block)
            return true;
    return false;
}

/* End the program if a block is there twice. */
static void expect_once(void *const *blocks, size_t n) {
    enum {
        N_SEEN_LOG2 = 9
    };
    bool seen[1 << N_SEEN_LOG2] = {false}; /* by a hash, which others may have, too */
    for (size_t i = 0; i < n; i++) {
        size_t hash = (uintptr_t)blocks[i] * UINT64_C(0x9e3779b97f4a7c15) >> (64 - N_SEEN_LOG2);
        if (unlikely(seen[hash]) && unlikely(is_among(blocks, i, blocks[i])))
            fatal("double free", blocks[i]);
        seen[hash] = true;
    }
}

/* End the program if one of the blocks was freed twice: it is among them twice, or in a list of the
 * thread's.  Blocks are looked into only where there are such lists. */
static void check_batch(struct heap *heap, size_t class, void *const *blocks, size_t n) {
    const struct foreign *list = &heap->bins[class].foreign;
    expect_once(blocks, n);
    if (list->free == NULL && (!list->has_fed || *ready_list(heap, &local, class) == NULL))
        return;
    for (size_t i = 0; i < n; i++)
        if (unlikely(link_is_marked(blocks[i])) &&
            heap_lists(heap, &local, slab_of((uintptr_t)blocks[i]), blocks[i]))
            fatal("double free", blocks[i]);
}

/* Let go of the blocks of a batch.  Of those that became the thread's own meanwhile, because it
 * took over the heap of a thread that ended, the inbox or a look at the exchange brings home what
 * nobody uses. */
static void let_go_batch(struct heap *heap, size_t class, struct batch *batch) {
    void **blocks = batch->blocks;
    size_t n = batch->n;
    check_batch(heap, class, blocks, n);
    batch->n = 0;
    if (exchange_give(class, owner_at((uintptr_t)blocks[0]), blocks, n, false))
        *batch = (struct batch){NULL, 0, 0};
    else
        inbox_send(blocks, n);
    supply_schedule_purge(heap);
}

/* A segment of zeros; NULL if out of memory. */
static void *make_zeros(struct heap *heap) {
    void **places = exchange_open(&heap->spare);
    return places != NULL ? memset(places, 0, N_SEGMENT * sizeof *places) : NULL;
}

/* The batches of the group of a class, all without places; NULL if out of memory. */
static struct batch *make_group(struct heap *heap, size_t class) {
    if (heap->batches == no_batches) {
        struct batch **groups = make_zeros(heap);
        if (groups == NULL)
            return NULL;
        heap->batches = groups;
    }
    return heap->batches[class / N_GROUP] = make_zeros(heap);
}

/* The batch of a class, which has places; NULL if out of memory. */
static struct batch *make_batch(struct heap *heap, size_t class) {
    if (batch_of(heap, class) == NULL && make_group(heap, class) == NULL)
        return NULL;
    struct batch *batch = batch_of(heap, class);
    if (batch->blocks != NULL)
        return batch;
    void **places = exchange_open(&heap->spare);
    if (places == NULL)
        return NULL;
    size_t n = n_batch(class);
    *batch = (struct batch){places, 0, (uint32_t)(n < N_SEGMENT ? n : N_SEGMENT)};
    return batch;
}

bool remote_send_batch(struct heap *heap, size_t class, void *block) {
    struct batch *batch = make_batch(heap, class);
    if (batch == NULL)
        return remote_add(heap, class, block);
    batch->blocks[batch->n++] = block;
    bool is_full = batch->n == batch->n_most;
    if (is_full)
        let_go_batch(heap, class, batch);
    return is_full;
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

/* Let go of the first of a list, up to `n_most`; returns the rest. */
static void *let_go_some(struct heap *heap, size_t class, void *list, size_t n_most) {
    void *on_stack[N_SEGMENT];
    void **places = exchange_open(&heap->spare);
    void **others = places != NULL ? places : on_stack;
    size_t n = split_others(heap, &list, others, n_most);
    size_t stripe = n > 0 ? owner_at((uintptr_t)others[0]) : 0;
    bool is_given = n > 0 && places != NULL && exchange_give(class, stripe, places, n, true);
    if (!is_given)
        inbox_send(others, n);
    if (!is_given && places != NULL)
        exchange_close(&heap->spare, places);
    return list;
}

void remote_flush_list(struct heap *heap, size_t class, void *list) {
    size_t n_most = n_batch(class) < N_SEGMENT ? n_batch(class) : N_SEGMENT;
    if (list == NULL)
        return;
    while (list != NULL)
        list = let_go_some(heap, class, list, n_most);
    /* A thread must look at the exchange, and into the inboxes of orphans. */
    supply_schedule_purge(heap);
}

bool remote_shed(struct heap *heap, size_t class) {
    struct foreign *list = &heap->bins[class].foreign;
    size_t n = list->most + 1U;
    size_t most = list->was_used ? n_most_used(class) : n_batch(class);
    if (n >= most) {
        remote_flush_list(heap, class, foreign_take(list));
        list->was_used = false;
        most = n_batch(class);
        n = 0;
    }
    list->most = (uint16_t)(most - 1);
    list->countdown = (int32_t)(most - n) - 1;
    return true;
}

static void flush_batch(struct heap *heap, size_t class) {
    struct batch *batch = batch_of(heap, class);
    if (batch == NULL)
        return;
    if (batch->n > 0)
        let_go_batch(heap, class, batch);
    if (batch->blocks != NULL)
        exchange_close(&heap->spare, batch->blocks);
    *batch = (struct batch){NULL, 0, 0};
}

static void close_groups(struct heap *heap) {
    for (size_t i = 0; i < N_GROUPS; i++)
        if (heap->batches[i] != NULL)
            exchange_close(&heap->spare, (void *)heap->batches[i]);
    exchange_close(&heap->spare, (void *)heap->batches);
    heap->batches = no_batches;
}

void remote_flush(struct heap *heap) {
    for (size_t class = 0; class < classes.n_classes; class ++) {
        flush_batch(heap, class);
        remote_flush_list(heap, class, foreign_take(&heap->bins[class].foreign));
    }
    if (THREADS && heap->batches != no_batches)
        close_groups(heap);
    exchange_close_spare(&heap->spare);
}

void remote_return_lists(struct heap *heap, struct local *from) {
    remote_flush(heap);
    for (size_t class = 0; class < classes.n_classes; class ++)
        remote_flush_list(heap, class, heap_return_list(heap, from, class));
}

/* --- back into use --- */

/* Make the blocks the ready list, the last apart, which is returned.  What came last goes first, as
 * segments do from their stack: so blocks come back in the reverse of the order in which they were
 * freed, wherever it was cut into segments, and neighbours stay together. */
static void *make_ready(struct heap *heap, size_t class, void *const *blocks, size_t n) {
    void *ready = NULL;
    if (n == 0)
        return NULL;
    for (size_t i = n; i-- > 0;)
        __builtin_prefetch(blocks[i], 1);
    for (size_t i = 0; i < n - 1; i++)
        link_push(&ready, blocks[i]);
    *ready_list(heap, &local, class) = ready;
    heap->bins[class].foreign.has_fed = true;
    hand_out(blocks[n - 1]);
    return blocks[n - 1];
}

/* The blocks of a batch; NULL if there are none, or malloc may not have them. */
static void *take_batch(struct heap *heap, size_t class) {
    if (!remote_has_batch(heap, class) || class < classes.first_line)
        return NULL;
    struct batch *batch = batch_of(heap, class);
    size_t n = batch->n;
    check_batch(heap, class, batch->blocks, n);
    batch->n = 0;
    note_mixed(heap, &local, batch->blocks[0]);
    return make_ready(heap, class, batch->blocks, n);
}

void *remote_take_freed(struct heap *heap, size_t class) {
    void *block = foreign_take_for_use(heap, class);
    if (block == NULL)
        return take_batch(heap, class);
    *ready_list(heap, &local, class) = link_follow(block);
    hand_out(block);
    return block;
}

/* The same of what came out of the exchange; a list stays linked. */
static void *make_taken_ready(struct heap *heap, size_t class, const struct taken *taken) {
    void **blocks = taken->blocks;
    void *first = blocks[0];
    if (!taken->is_list) {
        first = make_ready(heap, class, blocks, taken->n);
    } else {
        for (size_t i = 1; i < taken->n; i++)
            __builtin_prefetch(blocks[i], 1);
        *ready_list(heap, &local, class) = taken->n > 1 ? blocks[1] : NULL;
        heap->bins[class].foreign.has_fed = true;
        hand_out(first);
    }
    exchange_close(&heap->spare, blocks);
    return first;
}

void *remote_take_slowly(struct heap *heap, size_t class) {
    struct taken taken;
    bool is_found = exchange_take(class, heap->number, &taken);
    return is_found ? make_taken_ready(heap, class, &taken) : NULL;
}

void *remote_take_anywhere_slowly(struct heap *heap, size_t class) {
    struct taken taken;
    bool is_found = exchange_take_anywhere(class, heap->number, &taken);
    return is_found ? make_taken_ready(heap, class, &taken) : NULL;
}

/* Free blocks of the unit of the first, from the first on, up to `n`; returns how many. */
static size_t free_neighbours(struct heap *heap, void *const *blocks, size_t n) {
    const struct slab *unit = unit_slab_of((uintptr_t)blocks[0]);
    size_t n_same = 1;
    while (n_same < n && unit_slab_of((uintptr_t)blocks[n_same]) == unit)
        n_same++;
    struct slab *slab = slab_of((uintptr_t)blocks[0]);
    if (!heap_free_many(slab, blocks, n_same))
        for (size_t i = 0; i < n_same; i++)
            heap_free(heap, slab_of((uintptr_t)blocks[i]), blocks[i]);
    return n_same;
}

/* Free blocks that others sent, or send them on. */
static void free_sent(struct heap *heap, void *const *blocks, size_t n) {
    for (size_t i = 0; i < n;)
        if (likely(superblock_owner(superblock_of((uintptr_t)blocks[i])) == heap))
            i += free_neighbours(heap, blocks + i, n - i);
        else
            inbox_send(&blocks[i++], 1);
}

void remote_drain_slowly(struct heap *heap, size_t n_most) {
    void *blocks[N_INBOX];
    size_t n = 1;
    for (size_t left = n_most; left > 0 && n > 0; left -= n < left ? n : left) {
        n = inbox_take(heap, blocks, N_INBOX);
        free_sent(heap, blocks, n);
    }
}

void *remote_take_sent_slowly(struct heap *heap, size_t class) {
    void *blocks[N_INBOX];
    void *others[N_INBOX];
    size_t n = inbox_take(heap, blocks, N_RUNS_BESIDE);
    size_t n_taken = 0;
    size_t n_others = 0;
    for (size_t i = 0; i < n; i++)
        if (class_of_block((uintptr_t)blocks[i]) == class)
            blocks[n_taken++] = blocks[i];
        else
            others[n_others++] = blocks[i];
    free_sent(heap, others, n_others);
    return make_ready(heap, class, blocks, n_taken);
}
