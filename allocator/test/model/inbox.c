/* inbox.c - model: blocks that two threads send home arrive once each, with what the program wrote
 * into them before, while the owner empties its inbox. */
#include "model.h"

#define _Thread_local /* the model checker has no structures that threads have of their own */
#define tls_model(model) unused
#include "memory/superblock.h"

/* Addresses are the model checker's own: no superblock can be found by masking them. */
#define superblock_owner(sb)    (&home)
#define class_of_block(address) ((size_t)0)
struct heap;
extern struct heap home;
#include "thread/inbox.c"

enum {
    N_BLOCKS = 3,
    N_WORDS = 4
};

struct heap home;
struct options options;
struct size_classes classes;
struct layout layout = {.link_secret = 0};

static uint64_t blocks[N_BLOCKS][N_WORDS];
static int n_arrived[N_BLOCKS];

static void write(size_t i) {
    blocks[i][N_WORDS - 1] = 1;
}

static void *send_one(void *argument) {
    void *block = blocks[0];
    write(0);
    inbox_send(&block, 1);
    return argument;
}

/* The first has the address of the second. */
static void *send_two(void *argument) {
    void *const two[] = {blocks[1], blocks[2]};
    write(1);
    write(2);
    inbox_send(two, 2);
    return argument;
}

static void take(void) {
    void *taken[N_INBOX];
    for (size_t n = inbox_take(&home, taken); n > 0; n--)
        for (size_t i = 0; i < N_BLOCKS; i++)
            if (taken[n - 1] == blocks[i]) {
                assert(blocks[i][N_WORDS - 1] == 1);
                blocks[i][N_WORDS - 1] = 2;
                n_arrived[i]++;
            }
}

int main(void) {
    pthread_t threads[2];
    classes.of[0].block_bytes = sizeof blocks[0];
    pthread_create(&threads[0], NULL, send_one, NULL);
    pthread_create(&threads[1], NULL, send_two, NULL);
    take();
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    take();
    assert(n_arrived[0] == 1 && n_arrived[1] == 1 && n_arrived[2] == 1);
    return 0;
}
