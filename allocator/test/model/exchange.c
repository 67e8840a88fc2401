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

static void put(int i) {
    void *block = &contents[i];
    contents[i] = 1;
    assert(exchange_put(0, 0, &block, 1, 1) == 1);
}

static void take(void) {
    void *blocks[N_SEGMENT];
    for (size_t n = exchange_take(0, 0, blocks); n > 0; n--) {
        int *block = blocks[n - 1];
        assert(*block == 1);
        *block = 2;
        n_taken[block - contents]++;
    }
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
