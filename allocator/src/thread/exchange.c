/* exchange.c - stacks of segments of addresses, one for each size class and stripe.
 *
 * A thread that frees blocks of others brings them here, each to the stripe of its owner;
 * a thread that needs blocks takes some, from its own stripe if it can, from any
 * other before it takes memory that was not used so far.  Whose slab a block lies in does
 * not matter to its user: it stays in use there until it is sent home.  So memory
 * that one thread allocates and another frees goes round without a look into any
 * slab, and what was freed for a thread that sleeps serves those that run.
 *
 * Addresses lie in segments, not in the blocks, which stay untouched and can be
 * fetched in advance, all at once; blocks that the thread has linked already stay linked.  A stack
 * takes exchange_bytes of blocks.  What was not wanted for one to two times purge_delay, by the
 * fewest blocks that were there meanwhile, goes home.
 *
 * There are no locks: a thread that holds one may sleep, and the others would cut new memory in
 * place of what it guards.  A stack is one word, the number of its top segment, which one
 * compare-and-swap replaces (Treiber, "Systems programming: coping with parallelism", 1986).
 * The rest of the word counts changes, so that a thread that slept before its compare-and-swap
 * sees that the top it knew went away and came back; that fails after 2^40 changes exactly.
 * Segments are never unmapped, hence can be read at any time.
 */
#include "thread/exchange.h"

#include <string.h>

#include "base/options.h"
#include "memory/size_class.h"
#include "system/lock.h"
#include "system/os.h"
#include "thread/stack_top.h"

enum {
    FIRST_SHIFT = 9, /* numbers begin with 2^FIRST_SHIFT, so many in the first chunk, twice as many
                        in each that follows */
    N_CHUNKS = NUMBER_BITS - FIRST_SHIFT,
    N_SPARE = 8 /* segments that come from or go to the unused ones at a time */
};

struct segment {
    uint32_t below;          /* atomic: number of the segment below in the stack; 0: none */
    uint32_t depth;          /* atomic: blocks in this and all below */
    void *blocks[N_SEGMENT]; /* the first is odd if they are a list, the last if they are fewer */
};

_Static_assert(sizeof(struct segment) == (size_t)4 * CACHE_LINE, "a segment fills its lines");

/* The blocks of one class and stripe. */
struct shelf {
    uint64_t top;    /* atomic: number of the top segment, or 0; changes << NUMBER_BITS */
    uint32_t n_idle; /* atomic: fewest blocks since the last look */
};

uint8_t exchange_is_open;

/* All state of this module but exchange_is_open.  What threads that have nothing to do with each
 * other write lies in lines of its own. */
static struct {
    _Alignas(CACHE_LINE) struct segment *chunks[N_CHUNKS]; /* atomic */
    uint32_t n_segments;                                   /* atomic: ever made */
    _Alignas(CACHE_LINE) uint64_t unused;                  /* atomic: a stack, as that of a shelf */
    _Alignas(CACHE_LINE) struct lock looking;              /* of the two below */
    uint64_t look_ms;                                      /* when the next look is due */
    size_t cursor; /* shelf that the look has come to; all of them between looks */
    _Alignas(CACHE_LINE) struct shelf shelves[N_STRIPES][N_CLASSES_MAX];
} exchange;

static bool is_open(void) {
    return THREADS && __atomic_load_n(&exchange_is_open, __ATOMIC_RELAXED);
}

/* --- segments --- */

static size_t chunk_of(uint32_t number) {
    return (size_t)(31 - __builtin_clz(number)) - FIRST_SHIFT;
}

static struct segment *segment_at(uint32_t number) {
    size_t chunk = chunk_of(number);
    return __atomic_load_n(&exchange.chunks[chunk], __ATOMIC_RELAXED) +
           (number - (UINT32_C(1) << (chunk + FIRST_SHIFT)));
}

/* Make sure that there is memory for the segments of a chunk; false if there is none. */
static bool has_chunk(size_t chunk) {
    if (__atomic_load_n(&exchange.chunks[chunk], __ATOMIC_ACQUIRE) != NULL)
        return true;
    size_t bytes = sizeof(struct segment) << (chunk + FIRST_SHIFT);
    struct segment *segments = os_map(bytes);
    struct segment *expected = NULL;
    if (segments == NULL)
        return false;
    if (!__atomic_compare_exchange_n(&exchange.chunks[chunk], &expected, segments, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        os_unmap(segments, bytes);
    return true;
}

/* The number of a segment that never was in use; 0 if out of memory. */
static uint32_t new_segment(void) {
    uint32_t n = __atomic_load_n(&exchange.n_segments, __ATOMIC_RELAXED);
    uint32_t number;
    do {
        number = n + (UINT32_C(1) << FIRST_SHIFT);
        size_t chunk = chunk_of(number);
        if (chunk >= N_CHUNKS || !has_chunk(chunk))
            return 0;
    } while (!__atomic_compare_exchange_n(&exchange.n_segments, &n, n + 1, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return number;
}

/* --- one stack --- */

/* Blocks of a stack with this top, which may not be so any more. */
static uint32_t depth_below(uint64_t top) {
    uint32_t number = number_in(top);
    return number != 0 ? __atomic_load_n(&segment_at(number)->depth, __ATOMIC_RELAXED) : 0;
}

static uint32_t depth(const struct shelf *shelf) {
    return depth_below(__atomic_load_n(&shelf->top, __ATOMIC_ACQUIRE));
}

/* Put the segment, with `n` blocks, on the stack. */
static void push(uint64_t *stack, uint32_t number, uint32_t n) {
    struct segment *segment = segment_at(number);
    uint64_t top = __atomic_load_n(stack, __ATOMIC_ACQUIRE);
    do {
        __atomic_store_n(&segment->below, number_in(top), __ATOMIC_RELAXED);
        __atomic_store_n(&segment->depth, depth_below(top) + n, __ATOMIC_RELAXED);
    } while (!__atomic_compare_exchange_n(stack, &top, changed(top, number), true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
}

/* Take the top segment off; 0 if there is none. */
static uint32_t pop(uint64_t *stack) {
    uint64_t top = __atomic_load_n(stack, __ATOMIC_ACQUIRE);
    uint32_t number;
    uint32_t below;
    do {
        number = number_in(top);
        if (number == 0)
            return 0;
        below = __atomic_load_n(&segment_at(number)->below, __ATOMIC_RELAXED);
    } while (!__atomic_compare_exchange_n(stack, &top, changed(top, below), true, __ATOMIC_ACQUIRE,
                                          __ATOMIC_ACQUIRE));
    return number;
}

/* --- put and take --- */

static bool has_room(const struct shelf *shelf, size_t block_bytes) {
    return depth(shelf) * block_bytes < options.exchange_bytes;
}

/* Take up to N_SPARE of the unused segments; false if there are none.  What lies below the top may
 * be in use again while it is read: then the top was changed. */
static bool take_spare(struct spare *spare) {
    uint64_t top = __atomic_load_n(&exchange.unused, __ATOMIC_ACQUIRE);
    uint32_t next;
    do {
        next = number_in(top);
        *spare = (struct spare){next, next, 0};
        if (next == 0)
            return false;
        for (; spare->n < N_SPARE && next != 0; spare->n++) {
            spare->last = next;
            next = __atomic_load_n(&segment_at(next)->below, __ATOMIC_RELAXED);
        }
    } while (!__atomic_compare_exchange_n(&exchange.unused, &top, changed(top, next), true,
                                          __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
    return true;
}

void exchange_close_spare(struct spare *spare) {
    if (spare->n == 0)
        return;
    struct segment *last = segment_at(spare->last);
    uint64_t top = __atomic_load_n(&exchange.unused, __ATOMIC_RELAXED);
    do {
        __atomic_store_n(&last->below, number_in(top), __ATOMIC_RELAXED);
    } while (!__atomic_compare_exchange_n(&exchange.unused, &top, changed(top, spare->first), true,
                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    *spare = (struct spare){0, 0, 0};
}

/* In no stack and not spare, a segment has its own number in the place of the one below. */
void **exchange_open(struct spare *spare) {
    uint32_t number = 0;
    if (spare->n > 0 || take_spare(spare)) {
        number = spare->first;
        spare->first = __atomic_load_n(&segment_at(number)->below, __ATOMIC_RELAXED);
        spare->n--;
    } else {
        number = new_segment();
    }
    if (number == 0)
        return NULL;
    struct segment *segment = segment_at(number);
    __atomic_store_n(&segment->below, number, __ATOMIC_RELAXED);
    return segment->blocks;
}

static struct segment *segment_of(void **blocks) {
    return (struct segment *)((char *)blocks - offsetof(struct segment, blocks));
}

void exchange_close(struct spare *spare, void **blocks) {
    struct segment *segment = segment_of(blocks);
    uint32_t number = __atomic_load_n(&segment->below, __ATOMIC_RELAXED);
    if (spare->n == 0)
        spare->last = number;
    __atomic_store_n(&segment->below, spare->first, __ATOMIC_RELAXED);
    spare->first = number;
    if (++spare->n == N_SPARE)
        exchange_close_spare(spare);
}

static struct shelf *shelf_of(size_t class, size_t stripe) {
    return &exchange.shelves[stripe % N_STRIPES][class];
}

static void give(struct shelf *shelf, void **blocks, size_t n) {
    uint32_t number = __atomic_load_n(&segment_of(blocks)->below, __ATOMIC_RELAXED);
    push(&shelf->top, number, (uint32_t)n);
    if (!is_open())
        __atomic_store_n(&exchange_is_open, 1, __ATOMIC_RELAXED);
}

bool exchange_give(size_t class, size_t stripe, void **blocks, size_t n, bool is_list) {
    struct shelf *shelf = shelf_of(class, stripe);
    if (!has_room(shelf, classes.of[class].block_bytes))
        return false;
    if (n < N_SEGMENT)
        blocks[N_SEGMENT - 1] = (void *)(n << 1 | 1);
    blocks[0] = (void *)((uintptr_t)blocks[0] | is_list);
    give(shelf, blocks, n);
    return true;
}

/* What a segment has, whose first address is put right. */
static struct taken read_segment(struct segment *segment) {
    uintptr_t first = (uintptr_t)segment->blocks[0];
    uintptr_t last = (uintptr_t)segment->blocks[N_SEGMENT - 1];
    bool is_list = (first & 1) != 0;
    segment->blocks[0] = (void *)(first - is_list);
    return (struct taken){segment->blocks, (last & 1) != 0 ? last >> 1 : N_SEGMENT, is_list};
}

/* Take out the blocks of one segment; false if there is none. */
static bool take_segment(struct shelf *shelf, struct taken *taken) {
    uint32_t number = pop(&shelf->top);
    if (number == 0)
        return false;
    struct segment *segment = segment_at(number);
    *taken = read_segment(segment);
    uint32_t left = __atomic_load_n(&segment->depth, __ATOMIC_RELAXED) - (uint32_t)taken->n;
    __atomic_store_n(&segment->below, number, __ATOMIC_RELAXED);
    if (left < __atomic_load_n(&shelf->n_idle, __ATOMIC_RELAXED))
        __atomic_store_n(&shelf->n_idle, left, __ATOMIC_RELAXED);
    return true;
}

bool exchange_take(size_t class, size_t stripe, struct taken *taken) {
    return take_segment(shelf_of(class, stripe), taken);
}

bool exchange_take_anywhere(size_t class, size_t stripe, struct taken *taken) {
    bool is_found = false;
    for (size_t i = 0; i < N_STRIPES && !is_found; i++)
        is_found = exchange_take(class, stripe + i, taken);
    return is_found;
}

/* --- looks --- */

/* As many blocks of segments as there are up to `n_most`, or some more, but no more than `n`. */
static size_t take_many(struct shelf *shelf, void **blocks, size_t n_most, size_t n) {
    struct spare spare = {0, 0, 0};
    struct taken taken;
    size_t n_taken = 0;
    while (n_taken < n_most && n_taken + N_SEGMENT <= n && take_segment(shelf, &taken)) {
        memcpy(blocks + n_taken, taken.blocks, taken.n * sizeof *blocks);
        exchange_close(&spare, taken.blocks);
        n_taken += taken.n;
    }
    exchange_close_spare(&spare);
    return n_taken;
}

/* Idle blocks of the shelf that the look has come to; 0: it has passed on to the next. */
static size_t look_at(struct shelf *shelf, void **blocks, size_t n) {
    uint32_t n_idle = __atomic_load_n(&shelf->n_idle, __ATOMIC_RELAXED);
    size_t n_taken = take_many(shelf, blocks, n_idle, n);
    uint32_t next = n_taken == 0 ? depth(shelf) : n_taken < n_idle ? n_idle - (uint32_t)n_taken : 0;
    if (next != n_idle) /* shelves that never were in use stay untouched */
        __atomic_store_n(&shelf->n_idle, next, __ATOMIC_RELAXED);
    exchange.cursor += n_taken == 0;
    return n_taken;
}

static size_t look(void **blocks, size_t n) {
    size_t n_taken = 0;
    while (exchange.cursor < classes.n_classes * N_STRIPES && n_taken == 0) {
        size_t class = exchange.cursor % classes.n_classes;
        n_taken = look_at(shelf_of(class, exchange.cursor / classes.n_classes), blocks, n);
    }
    return n_taken;
}

size_t exchange_take_idle(uint64_t now_ms, void **blocks, size_t n) {
    if (!is_open() || !lock_try(&exchange.looking))
        return 0;
    if (now_ms >= exchange.look_ms) {
        exchange.look_ms = now_ms + options.purge_delay;
        exchange.cursor = 0;
    }
    size_t n_taken = look(blocks, n);
    lock_release(&exchange.looking);
    return n_taken;
}

/* --- everything --- */

size_t exchange_take_any(void **blocks, size_t n) {
    size_t n_taken = 0;
    for (size_t class = 0; is_open() && class < classes.n_classes; class ++)
        for (size_t i = 0; i < N_STRIPES; i++)
            n_taken += take_many(shelf_of(class, i), blocks + n_taken, n, n - n_taken);
    return n_taken;
}

bool exchange_has_any(void) {
    for (size_t class = 0; is_open() && class < classes.n_classes; class ++)
        for (size_t i = 0; i < N_STRIPES; i++)
            if (number_in(__atomic_load_n(&shelf_of(class, i)->top, __ATOMIC_RELAXED)) != 0)
                return true;
    return false;
}

void exchange_lock(void) {
    lock_take(&exchange.looking);
}

void exchange_unlock(void) {
    lock_release(&exchange.looking);
}
