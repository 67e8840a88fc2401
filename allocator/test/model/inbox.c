/* inbox.c - model: blocks that two threads send home arrive once each, with what the program wrote
 * into them before, while the owner empties its inbox. */
#include "model.h"

#define _Thread_local /* the model checker has no structures that threads have of their own; */
#define tls_model(model) unused /* only the owner uses it here */
#include "memory/superblock.h"

/* Addresses are the model checker's own: no superblock can be found by masking them. */
#define superblock_owner(sb) (&home)
#define slab_of(address)     (&slab)
#define unit_slab_of(block)  (&slab)
struct heap;
extern struct heap home;
static struct slab slab;
#include "thread/remote.c"

struct heap home;
struct local local;
struct options options;
struct size_classes classes;
struct layout layout = {.link_secret = 0};
uint8_t exchange_is_open;

static uint64_t blocks[2][2];
static int n_freed[2];

static void arrive(uint64_t *block) {
    size_t i = block != blocks[0];
    assert(block == blocks[i] && block[1] == 1);
    n_freed[i]++;
}

bool heap_free_chain(struct slab *of, void *first, void *last, size_t n) {
    assert(of == &slab);
    arrive(first);
    if (n == 2)
        arrive(last);
    return true;
}

static void *send(void *i) {
    uint64_t *block = blocks[i != NULL];
    block[1] = 1;
    remote_free_slowly(NULL, block);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, send, NULL);
    pthread_create(&threads[1], NULL, send, &home);
    remote_drain_slowly(&home, 2);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    remote_drain_slowly(&home, 2);
    assert(n_freed[0] == 1 && n_freed[1] == 1);
    return 0;
}
