/* test_exchange.c - what goes into the exchange comes out of it exactly once, whatever the threads
 * do.
 *
 * Tokens stand for blocks; the exchange never looks into those.  Threads put tokens they hold into
 * two stacks and take others out, at random, some linked; no thread may get a token that another
 * holds.
 */
#include <pthread.h>
#include <string.h>

#include "exgen.h"
#include "memory/link.h"
#include "test.h"
#include "thread/exchange.h"
#include "thread/stack_top.h"

enum {
    N_THREADS = 4,
    N_TOKENS = 64,
    N_STEPS = 1000000,
    N_HELD_MAX = N_TOKENS + N_SEGMENT,
    CLASS = 5
};

static struct token {
    _Alignas(16) uintptr_t link[2];
    uint32_t n_holders; /* atomic, 0 or 1 */
} tokens[N_TOKENS];

static size_t n_lists; /* atomic: that were taken */

struct hand {
    uint64_t random;
    struct spare spare;
    size_t n_lists; /* of these */
    size_t n;
    void *held[N_HELD_MAX];
};

static void grasp(struct hand *hand, size_t n) {
    for (size_t i = hand->n; i < hand->n + n; i++) {
        struct token *token = hand->held[i];
        EXPECT(token >= tokens && token < tokens + N_TOKENS);
        EXPECT(__atomic_exchange_n(&token->n_holders, 1, __ATOMIC_RELAXED) == 0);
    }
    hand->n += n;
}

static void let_go(struct hand *hand, size_t n) {
    hand->n -= n;
    for (size_t i = hand->n; i < hand->n + n; i++) {
        struct token *token = hand->held[i];
        EXPECT(__atomic_exchange_n(&token->n_holders, 0, __ATOMIC_RELAXED) == 1);
    }
}

static void put(struct hand *hand, size_t class, void *const *blocks, size_t n, bool is_list) {
    void **places = exchange_open(&hand->spare);
    EXPECT(places != NULL);
    memcpy(places, blocks, n * sizeof *blocks);
    for (size_t i = 0; is_list && i < n; i++)
        link_set(blocks[i], i + 1 < n ? blocks[i + 1] : NULL);
    EXPECT(exchange_give(class, 1, places, n, is_list));
}

static void put_some(struct hand *hand) {
    size_t n = 1 + test_random(&hand->random) % N_SEGMENT;
    if (n > hand->n)
        n = hand->n;
    size_t class = CLASS + test_random(&hand->random) % 2;
    let_go(hand, n);
    if (n > 0)
        put(hand, class, hand->held + hand->n, n, test_random(&hand->random) % 2 == 0);
}

/* Hold the blocks that were taken. */
static void hold(struct hand *hand, const struct taken *taken) {
    void *const *blocks = taken->blocks;
    for (size_t i = 0; taken->is_list && i < taken->n; i++)
        EXPECT(link_follow(blocks[i]) == (i + 1 < taken->n ? blocks[i + 1] : NULL));
    memcpy(hand->held + hand->n, blocks, taken->n * sizeof *blocks);
    hand->n_lists += taken->is_list;
    exchange_close(&hand->spare, taken->blocks);
    grasp(hand, taken->n);
}

static void take_some(struct hand *hand) {
    size_t class = CLASS + test_random(&hand->random) % 2;
    struct taken taken;
    bool is_found = test_random(&hand->random) % 8 == 0 ? exchange_take_anywhere(class, 0, &taken)
                                                        : exchange_take(class, 1, &taken);
    if (is_found)
        hold(hand, &taken);
}

static void *play(void *seed) {
    struct hand *hand = calloc(1, sizeof *hand);
    EXPECT(hand != NULL);
    hand->random = (uint64_t)(uintptr_t)seed;
    for (size_t i = 0; i < N_STEPS; i++) {
        if (test_random(&hand->random) % 2 == 0)
            put_some(hand);
        else
            take_some(hand);
    }
    while (hand->n > 0)
        put_some(hand);
    __atomic_fetch_add(&n_lists, hand->n_lists, __ATOMIC_RELAXED);
    exchange_close_spare(&hand->spare);
    free(hand);
    return NULL;
}

/* Returns the places of the first segment. */
static void *const *put_all(void) {
    struct hand hand = {0};
    void **first = exchange_open(&hand.spare);
    EXPECT(first != NULL);
    exchange_close(&hand.spare, first);
    for (size_t i = 0; i < N_TOKENS; i++) {
        void *token = &tokens[i];
        put(&hand, CLASS, &token, 1, false);
    }
    return first;
}

/* Segments go round: there are no more than the first 512, which lie side by side. */
static void expect_few_segments(void *const *first) {
    struct spare spare = {0};
    void **places = exchange_open(&spare);
    EXPECT(places != NULL && (size_t)((char *)places - (char *)first) < (size_t)512 * 256);
    exchange_close(&spare, places);
    exchange_close_spare(&spare);
}

static void expect_all(void) {
    struct hand *hand = calloc(1, sizeof *hand);
    size_t n;
    while ((n = exchange_take_any(hand->held + hand->n, N_HELD_MAX - hand->n)) > 0)
        grasp(hand, n);
    EXPECT(hand->n == N_TOKENS);
    EXPECT(!exchange_has_any());
    let_go(hand, N_TOKENS);
    free(hand);
}

/* Every change of a stack is another word, also where the same segment is on top again. */
static void expect_count_of_changes(void) {
    const uint32_t greatest = (UINT32_C(1) << NUMBER_BITS) - 1;
    uint64_t top = 0;
    for (uint64_t n = 1; n <= 1000; n++) {
        uint32_t number = n % 2 == 0 ? greatest : (uint32_t)(n % 3);
        top = changed(top, number);
        EXPECT(number_in(top) == number);
        EXPECT(top >> NUMBER_BITS == n);
    }
    top = changed(UINT64_MAX, 1); /* the count starts again and leaves the number alone */
    EXPECT(top == 1);
}

int main(void) {
    expect_count_of_changes();
    pthread_t threads[N_THREADS];
    exgen_free(exgen_malloc(1)); /* the size classes, hence bounds, are in place */
    void *const *first = put_all();
    for (uintptr_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, play, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(n_lists > 0); /* a thread alone may find none: another holds all, and waits */
    expect_all();
    expect_few_segments(first);
    return test_passed();
}
