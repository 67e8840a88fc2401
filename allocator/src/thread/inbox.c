/* inbox.c - stacks of bundles of blocks, two for each heap.
 *
 * Blocks above the size classes have a stack of their own, one block in a bundle: a malloc that
 * needs one would not find it behind thousands of small ones, and take new memory.
 *
 * A bundle is up to N_BUNDLE blocks of one class.  Their addresses lie in the first of them, which
 * has room for some, then in the next, and so on: block i has those of i * n + 1 to i * n + n.
 * So most are not touched before they arrive, and are fetched in advance, several at once.
 *
 *   word 0    of the first block: link to the next bundle
 *   word 1    of the first block: number of the other blocks, and whether it bore no mark of a free
 *             block, encoded as links are
 *   word 2..  addresses, encoded as links are
 *
 * One compare-and-swap puts a chain of bundles on the owner's inbox.  The owner takes the inbox as
 * a whole by one exchange, so there is no ABA problem.
 *
 * Ownership may change between the look at it and the arrival (adoption); the receiver then sends
 * the block on.  Heaps are never unmapped, so a late block always arrives somewhere.
 */
#include "thread/inbox.h"

#include "base/options.h"
#include "memory/link.h"

enum {
    N_BUNDLE = 31,    /* most blocks */
    UNMARKED = 32,    /* added to the number of the others */
    FIRST_ADDRESS = 2 /* word of a block */
};

_Static_assert(2 * N_BUNDLE + N_RUNS_BESIDE <= N_INBOX, "two are taken at a time");
_Static_assert((int)N_BUNDLE <= (int)UNMARKED, "a bit of its own");

/* --- bundles --- */

/* How many addresses a block has room for; none if it has no size class, or with junk, which is to
 * stay in it. */
static size_t n_addresses(size_t class) {
    if (class >= N_CLASSES_MAX || options.junk)
        return 0;
    return classes.of[class].block_bytes / sizeof(uintptr_t) - FIRST_ADDRESS;
}

/* The place of the address of `blocks[i]`. */
static uintptr_t *place_of(void *const *blocks, size_t i, size_t n_each) {
    uintptr_t *words = blocks[(i - 1) / n_each];
    return &words[FIRST_ADDRESS + (i - 1) % n_each];
}

static struct heap *owner_of(const void *block) {
    return superblock_owner(superblock_of((uintptr_t)block));
}

/* Make a bundle of the first block and those behind it that are of its class and owner; returns
 * how many blocks it has. */
static size_t bundle(void *const *blocks, size_t n, const struct heap *owner) {
    size_t class = class_of_block((uintptr_t)blocks[0]);
    size_t n_each = n > 1 ? n_addresses(class) : 0;
    size_t most = n_each == 0 ? 1 : n < N_BUNDLE ? n : N_BUNDLE;
    size_t i = 1;
    for (;
         i < most && owner_of(blocks[i]) == owner && class_of_block((uintptr_t)blocks[i]) == class;
         i++)
        *place_of(blocks, i, n_each) = (uintptr_t)blocks[i] ^ layout.link_secret;
    size_t unmarked = link_is_marked(blocks[0]) ? 0 : UNMARKED;
    ((uintptr_t *)blocks[0])[1] = ((i - 1) | unmarked) ^ layout.link_secret;
    return i;
}

/* The blocks of a bundle; returns how many.  The first bears a mark if it did so before: a block on
 * a list that another thread freed, too. */
static size_t unbundle(void *first, void **blocks) {
    size_t number = ((const uintptr_t *)first)[1] ^ layout.link_secret;
    size_t n_others = number & ~(size_t)UNMARKED;
    size_t n_each = n_others > 0 ? n_addresses(class_of_block((uintptr_t)first)) : 0;
    if (n_others >= N_BUNDLE || (n_others > 0 && n_each == 0))
        fatal("corrupted free list", first);
    if (number == n_others)
        link_mark(first);
    else
        link_unmark(first);
    blocks[0] = first;
    for (size_t i = 1; i <= n_others; i++) {
        blocks[i] = (void *)(*place_of(blocks, i, n_each) ^ layout.link_secret);
        if (!link_is_sound(blocks[i]) || blocks[i] == NULL)
            fatal("corrupted free list", blocks[(i - 1) / n_each]);
        __builtin_prefetch(blocks[i], 1);
    }
    return n_others + 1;
}

/* --- inboxes --- */

static void push(void **inbox, void *first, void *last) {
    void *head = __atomic_load_n(inbox, __ATOMIC_RELAXED);
    do {
        link_set(last, head);
    } while (!__atomic_compare_exchange_n(inbox, &head, first, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

void inbox_send(void *const *blocks, size_t n) {
    for (size_t i = 0; i < n;) {
        struct heap *to = owner_of(blocks[i]);
        void *first = blocks[i];
        void *last = first;
        for (i += bundle(blocks + i, n - i, to); i < n && owner_of(blocks[i]) == to;) {
            void *next = blocks[i];
            i += bundle(blocks + i, n - i, to);
            link_set(next, first);
            first = next;
        }
        bool is_run = class_of_block((uintptr_t)first) >= N_CLASSES_MAX;
        push(is_run ? &to->inbox_runs : &to->inbox, first, last);
    }
}

/* The next bundle, which is the first of what was taken from an inbox; NULL if there is none. */
static void *next_sent(void **pending, void **inbox) {
    if (*pending == NULL && __atomic_load_n(inbox, __ATOMIC_RELAXED) != NULL)
        *pending = __atomic_exchange_n(inbox, NULL, __ATOMIC_ACQUIRE);
    return *pending;
}

/* The blocks of the next bundles, which have `n_each` at most, up to `n_most`; returns how many. */
static size_t take_bundles(void **pending, void **inbox, void **blocks, size_t n_each,
                           size_t n_most) {
    size_t n = 0;
    void *first;
    while (n + n_each <= n_most && (first = next_sent(pending, inbox)) != NULL) {
        *pending = link_follow(first);
        __builtin_prefetch(*pending);
        n += unbundle(first, blocks + n);
    }
    return n;
}

size_t inbox_take(struct heap *heap, void **blocks, size_t n_runs) {
    size_t n = take_bundles(&heap->pending_runs, &heap->inbox_runs, blocks, 1, n_runs);
    return n + take_bundles(&heap->pending, &heap->inbox, blocks + n, N_BUNDLE, N_INBOX - n);
}
