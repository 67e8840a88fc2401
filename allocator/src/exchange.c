/* exchange.c - stacks of addresses, one for each stripe and size class.
 *
 * A thread that frees blocks of others brings them here, each to the stripe of its owner;
 * a thread that needs blocks takes some, from its own stripe if it can, from any
 * other before it takes memory that nobody used so far.  Whose slab a block lies in does
 * not matter to its user: it stays in use there until it is sent home.  So memory
 * that one thread allocates and another frees goes round without a look into any
 * slab, and what was freed for a thread that sleeps serves those that run.
 *
 * Addresses lie in segments, not in the blocks, which stay untouched and can be
 * fetched in advance, all at once.  A stack takes exchange_bytes of blocks.  What nobody
 * wanted for one to two times purge_delay, by the fewest blocks that were there
 * meanwhile, goes home.
 *
 * The holder of a lock may be put to sleep, so nobody waits long for one, but for a fork
 * and a look at everything: others pass on to the next stripe.
 */
#include "exchange.h"

#include "lock.h"
#include "options.h"
#include "os.h"
#include "size_class.h"

enum {
    N_SEGMENT = 31, /* addresses */
    CHUNK_BYTES = 65536
};

struct segment {
    struct segment *next; /* addresses put in earlier, or the next unused segment */
    void *blocks[N_SEGMENT];
};

/* The stack of one class. */
struct shelf {
    uint32_t n;            /* blocks; atomic, written under the lock */
    uint32_t n_idle;       /* fewest blocks since the last look */
    struct segment *top;   /* n addresses; NULL if there are none */
    struct segment *spare; /* was the top before, or NULL */
};

struct stripe {
    _Alignas(CACHE_LINE) struct lock lock;
    struct shelf shelves[N_CLASSES_MAX];
};

uint8_t exchange_is_open;

/* All state of this module but exchange_is_open. */
static struct {
    struct lock gate;       /* of the opening */
    struct lock lock;       /* of the three below */
    struct segment *unused; /* through next */
    char *chunk;            /* memory for further segments */
    char *chunk_end;
    struct lock looking; /* of the two below */
    uint64_t look_ms;    /* when the next look is due */
    size_t cursor;       /* shelf that the look has come to; all of them between looks */
    uint32_t stocked[N_CLASSES_MAX]; /* atomic: a bit for each stripe with blocks of the class */
    struct stripe stripes[N_STRIPES];
} exchange;

static uint32_t shelf_count(const struct shelf *shelf) {
    return __atomic_load_n(&shelf->n, __ATOMIC_RELAXED);
}

static bool is_open(void) {
    return THREADS && __atomic_load_n(&exchange_is_open, __ATOMIC_RELAXED);
}

/* --- segments --- */

static struct segment *new_segment(void) {
    struct segment *segment = NULL;
    lock_take(&exchange.lock);
    if (exchange.unused == NULL && exchange.chunk == exchange.chunk_end) {
        exchange.chunk = os_map(CHUNK_BYTES);
        exchange.chunk_end = exchange.chunk != NULL ? exchange.chunk + CHUNK_BYTES : NULL;
    }
    if (exchange.unused != NULL) {
        segment = exchange.unused;
        exchange.unused = segment->next;
    } else if (exchange.chunk != exchange.chunk_end) {
        segment = (struct segment *)exchange.chunk;
        exchange.chunk += sizeof *segment;
    }
    lock_release(&exchange.lock);
    return segment;
}

static void drop_segment(struct segment *segment) {
    lock_take(&exchange.lock);
    segment->next = exchange.unused;
    exchange.unused = segment;
    lock_release(&exchange.lock);
}

_Static_assert(CHUNK_BYTES % sizeof(struct segment) == 0, "chunks are cut without a rest");

/* --- one stack --- */

/* Place in the top segment of the n-th address, n counted from 0. */
static size_t place(uint32_t n) {
    return n % N_SEGMENT;
}

/* Note whether the stripe has blocks of a class, when the lock is held. */
static void note_stock(const struct stripe *stripe, size_t class) {
    uint32_t bit = UINT32_C(1) << (stripe - exchange.stripes);
    bool is_noted = (__atomic_load_n(&exchange.stocked[class], __ATOMIC_RELAXED) & bit) != 0;
    if (is_noted == (stripe->shelves[class].n > 0))
        return;
    __atomic_fetch_xor(&exchange.stocked[class], bit, __ATOMIC_RELAXED);
}

static bool push(struct shelf *shelf, void *block) {
    if (place(shelf->n) == 0) {
        struct segment *segment = shelf->spare != NULL ? shelf->spare : new_segment();
        if (segment == NULL)
            return false;
        shelf->spare = NULL;
        segment->next = shelf->top;
        shelf->top = segment;
    }
    shelf->top->blocks[place(shelf->n)] = block;
    __atomic_store_n(&shelf->n, shelf->n + 1, __ATOMIC_RELAXED);
    return true;
}

static void *pop(struct shelf *shelf) {
    uint32_t n = shelf->n - 1;
    void *block = shelf->top->blocks[place(n)];
    if (place(n) == 0) {
        struct segment *empty = shelf->top;
        shelf->top = empty->next;
        if (shelf->spare != NULL)
            drop_segment(shelf->spare);
        shelf->spare = empty;
    }
    __atomic_store_n(&shelf->n, n, __ATOMIC_RELAXED);
    return block;
}

static size_t pop_some(struct shelf *shelf, void **blocks, size_t n) {
    if (n > shelf->n)
        n = shelf->n;
    for (size_t i = 0; i < n; i++)
        blocks[i] = pop(shelf);
    if (shelf->n_idle > shelf->n)
        shelf->n_idle = shelf->n;
    return n;
}

/* --- put and take --- */

static void open_up(void) {
    if (is_open())
        return;
    lock_take(&exchange.gate);
    __atomic_store_n(&exchange_is_open, 1, __ATOMIC_RELAXED);
    lock_release(&exchange.gate);
}

/* lock_take with a bounded wait. */
static bool enter(struct stripe *stripe) {
    enum {
        N_TRIES = 32
    };
    for (size_t i = 0; i < N_TRIES; i++)
        if (lock_try(&stripe->lock))
            return true;
    return false;
}

/* How many further blocks of `block_bytes` the shelf may take. */
static size_t room(const struct shelf *shelf, size_t block_bytes) {
    size_t used = shelf->n * block_bytes;
    return used < options.exchange_bytes ? (options.exchange_bytes - used) / block_bytes + 1 : 0;
}

static size_t put(struct shelf *shelf, void *const *blocks, size_t n) {
    size_t n_put = 0;
    while (n_put < n && push(shelf, blocks[n_put]))
        n_put++;
    return n_put;
}

size_t exchange_put(size_t class, size_t stripe, void *const *blocks, size_t n) {
    if (options.exchange_bytes == 0)
        return 0;
    open_up();
    for (size_t i = 0; i < N_STRIPES; i++) {
        struct stripe *s = &exchange.stripes[(stripe + i) % N_STRIPES];
        if (!enter(s))
            continue;
        struct shelf *shelf = &s->shelves[class];
        size_t n_most = room(shelf, classes.of[class].block_bytes);
        size_t n_put = put(shelf, blocks, n < n_most ? n : n_most);
        note_stock(s, class);
        lock_release(&s->lock);
        return n_put;
    }
    return 0;
}

size_t exchange_take(size_t class, size_t stripe, void **blocks, size_t n) {
    struct stripe *s = &exchange.stripes[stripe % N_STRIPES];
    if (shelf_count(&s->shelves[class]) == 0 || !enter(s))
        return 0;
    size_t n_taken = pop_some(&s->shelves[class], blocks, n);
    note_stock(s, class);
    lock_release(&s->lock);
    return n_taken;
}

size_t exchange_take_anywhere(size_t class, size_t stripe, void **blocks, size_t n) {
    size_t n_taken = 0;
    uint32_t stocked = __atomic_load_n(&exchange.stocked[class], __ATOMIC_RELAXED);
    /* The first is the stripe itself, whose lock somebody may have held a moment ago. */
    for (size_t i = 0; stocked != 0 && i < N_STRIPES && n_taken == 0; i++)
        if ((stocked >> (stripe + i) % N_STRIPES & 1) != 0)
            n_taken = exchange_take(class, stripe + i, blocks, n);
    return n_taken;
}

/* --- looks --- */

/* Idle blocks of the shelf that the look has come to; 0: it has passed on to the next. */
static size_t look_at(struct stripe *stripe, struct shelf *shelf, void **blocks, size_t n) {
    size_t n_taken = 0;
    if (shelf_count(shelf) > 0 && enter(stripe)) {
        size_t n_idle = shelf->n_idle;
        n_taken = pop_some(shelf, blocks, n < n_idle ? n : n_idle);
        shelf->n_idle = n_taken > 0 ? (uint32_t)(n_idle - n_taken) : shelf->n;
        note_stock(stripe, (size_t)(shelf - stripe->shelves));
        lock_release(&stripe->lock);
    }
    exchange.cursor += n_taken == 0;
    return n_taken;
}

static size_t look(void **blocks, size_t n) {
    size_t n_taken = 0;
    while (exchange.cursor < classes.n_classes * N_STRIPES && n_taken == 0) {
        struct stripe *stripe = &exchange.stripes[exchange.cursor / classes.n_classes];
        struct shelf *shelf = &stripe->shelves[exchange.cursor % classes.n_classes];
        n_taken = look_at(stripe, shelf, blocks, n);
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

static size_t take_any(struct stripe *stripe, void **blocks, size_t n) {
    size_t n_taken = 0;
    lock_take(&stripe->lock);
    for (size_t class = 0; class < classes.n_classes && n_taken < n; class ++) {
        n_taken += pop_some(&stripe->shelves[class], blocks + n_taken, n - n_taken);
        note_stock(stripe, class);
    }
    lock_release(&stripe->lock);
    return n_taken;
}

size_t exchange_take_any(void **blocks, size_t n) {
    size_t n_taken = 0;
    for (size_t i = 0; is_open() && i < N_STRIPES && n_taken < n; i++)
        n_taken += take_any(&exchange.stripes[i], blocks + n_taken, n - n_taken);
    return n_taken;
}

bool exchange_has_any(void) {
    for (size_t i = 0; is_open() && i < N_STRIPES; i++)
        for (size_t class = 0; class < classes.n_classes; class ++)
            if (shelf_count(&exchange.stripes[i].shelves[class]) > 0)
                return true;
    return false;
}

void exchange_lock(void) {
    lock_take(&exchange.gate);
    if (!is_open())
        return;
    lock_take(&exchange.looking);
    for (size_t i = 0; i < N_STRIPES; i++)
        lock_take(&exchange.stripes[i].lock);
    lock_take(&exchange.lock);
}

void exchange_unlock(void) {
    if (is_open()) {
        lock_release(&exchange.lock);
        for (size_t i = 0; i < N_STRIPES; i++)
            lock_release(&exchange.stripes[i].lock);
        lock_release(&exchange.looking);
    }
    lock_release(&exchange.gate);
}
