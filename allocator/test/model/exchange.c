/* exchange.c - model: blocks that two threads put into a stack of the exchange come out once each,
 * with what was written into them, and segments that are used again harm nobody. */
#include "model.h"

#include "thread/exchange.c"

struct options options = {.exchange_bytes = 4096};
struct size_classes classes;
struct layout layout = {.link_zeros = 0};

void *os_map(size_t bytes) {
    return malloc(bytes);
}

bool os_unmap(void *start, size_t bytes) {
    (void)bytes;
    free(start);
    return true;
}

static uintptr_t blocks[2][2]; /* each with its link and contents */
static _Atomic int n_taken[2];

/* The second as a list. */
static void put(int i) {
    bool is_put = false;
    blocks[i][1] = 1;
    if (i == 0) {
        void **places = exchange_open();
        places[0] = blocks[i];
        is_put = exchange_give(0, 0, places, 1);
    } else {
        link_set(blocks[i], NULL);
        is_put = exchange_give_list(0, 0, blocks[i], 1);
    }
    assert(is_put);
}

static void take(void) {
    struct taken taken;
    if (!exchange_take(0, 0, &taken))
        return;
    int i = taken.is_list;
    assert(taken.n == 1 && taken.blocks[0] == blocks[i] && blocks[i][1] == 1);
    assert(!taken.is_list || link_next(blocks[i]) == NULL);
    exchange_close(taken.blocks);
    blocks[i][1] = 2;
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
