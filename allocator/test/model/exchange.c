/* exchange.c - model: blocks that two threads put into a stack of the exchange come out once each,
 * with what was written into them, and segments that are used again harm nobody. */
#include "model.h"

#include "thread/exchange.c"

struct options options = {.exchange_bytes = 4096};
struct size_classes classes;

void *os_map(size_t bytes) {
    return malloc(bytes);
}

bool os_unmap(void *start, size_t bytes) {
    (void)bytes;
    free(start);
    return true;
}

static int contents[2]; /* of the blocks */
static _Atomic int n_taken[2];

/* The second as a list. */
static void put(int i) {
    struct spare spare = {0, 0, 0};
    void **places = exchange_open(&spare);
    contents[i] = 1;
    places[0] = &contents[i];
    bool is_put = exchange_give(0, 0, places, 1, i == 1);
    assert(is_put);
}

static void take(void) {
    struct spare spare = {0, 0, 0};
    struct taken taken;
    if (!exchange_take(0, 0, &taken))
        return;
    int i = taken.is_list;
    assert(taken.n == 1 && taken.blocks[0] == &contents[i] && contents[i] == 1);
    exchange_close(&spare, taken.blocks);
    exchange_close_spare(&spare);
    contents[i] = 2;
    n_taken[i]++;
}

static void *put_and_take(void *i) {
    put(i != NULL);
    take();
    return NULL;
}

int main(void) {
    classes.of[0].block_bytes = 16;
    exchange.n_segments = (1 << FIRST_SHIFT) - 1; /* the second is another chunk's first */
    run_two(put_and_take, put_and_take);
    take();
    take();
    assert(n_taken[0] == 1 && n_taken[1] == 1);
    return 0;
}
