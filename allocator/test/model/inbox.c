/* inbox.c - model: blocks that two threads send home, one of them above the size classes, arrive
 * once each, with what the program wrote into them before, while the owner empties its inboxes. */
#include "model.h"

#define _Thread_local /* the model checker has no structures that threads have of their own */
#define tls_model(model) unused
#include "memory/superblock.h"

/* Addresses are the model checker's own: no superblock can be found by masking them. */
#define superblock_owner(sb)    (&home)
#define class_of_block(address) ((address) == (uintptr_t)memory[RUN] ? N_CLASSES_MAX : (size_t)0)
enum {
    RUN = 3, /* the block above the classes */
    N_BLOCKS,
    N_WORDS = 4
};

struct heap;
extern struct heap home;
static uint64_t memory[N_BLOCKS][N_WORDS];
#include "thread/inbox.c"

struct heap home;
struct options options;
struct size_classes classes;
struct layout layout = {.link_secret = 0};

static int n_arrived[N_BLOCKS];

static void write(size_t i) {
    memory[i][N_WORDS - 1] = 1;
}

static void *send_one(void *argument) {
    void *block = memory[0];
    void *run = memory[RUN];
    write(0);
    write(RUN);
    inbox_send(&block, 1);
    inbox_send(&run, 1);
    return argument;
}

/* The first has the address of the second. */
static void *send_two(void *argument) {
    void *const two[] = {memory[1], memory[2]};
    write(1);
    write(2);
    inbox_send(two, 2);
    return argument;
}

static void take(void) {
    void *taken[N_INBOX];
    for (size_t n = inbox_take(&home, taken, N_INBOX); n > 0; n--)
        for (size_t i = 0; i < N_BLOCKS; i++)
            if (taken[n - 1] == memory[i]) {
                assert(memory[i][N_WORDS - 1] == 1);
                memory[i][N_WORDS - 1] = 2;
                n_arrived[i]++;
            }
}

int main(void) {
    pthread_t threads[2];
    classes.of[0].block_bytes = sizeof memory[0];
    pthread_create(&threads[0], NULL, send_one, NULL);
    pthread_create(&threads[1], NULL, send_two, NULL);
    take();
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    take();
    for (size_t i = 0; i < N_BLOCKS; i++)
        assert(n_arrived[i] == 1);
    return 0;
}
