/* A ring of threads: each fills batches of blocks for the next one and frees what the one before
 * it has filled, so that no block is freed by the thread that allocated it, but with one thread.
 *
 * The work of xmalloc-test: C. Lever, D. Boreham, "malloc() Performance in a Multithreaded Linux
 * Environment", USENIX 2000 (Freenix), section 5.
 */
#include "crew.h"

enum {
    BATCH = 32,
    LEAST = 16,
    RANGE = 240
};

struct batch {
    unsigned char *blocks[BATCH];
};

static struct { _Alignas(64) _Atomic(struct batch *) batch; /* NULL: empty */ } boxes[MOST_MEMBERS];

static struct batch *fill(uint64_t *state) {
    struct batch *batch = need(sizeof *batch);
    for (size_t i = 0; i < BATCH; i++) {
        size_t bytes = LEAST + next_random(state) % RANGE;
        batch->blocks[i] = need(bytes);
        batch->blocks[i][0] = batch->blocks[i][bytes - 1] = (unsigned char)bytes;
    }
    return batch;
}

/* Free the batch that a member was sent, if there is one; returns whether there was. */
static int drain(size_t member, uint64_t *checksum) {
    struct batch *batch = atomic_load_explicit(&boxes[member].batch, memory_order_acquire);
    if (batch == NULL)
        return 0;
    atomic_store_explicit(&boxes[member].batch, NULL, memory_order_release);
    for (size_t i = 0; i < BATCH; i++) {
        *checksum += batch->blocks[i][0];
        free(batch->blocks[i]);
    }
    free(batch);
    return 1;
}

static uint64_t work(size_t member) {
    size_t next = (member + 1) % crew.n_members, n_drained = 0;
    uint64_t state = 40 + member, checksum = 0;
    for (size_t step = 0; step < crew.scale; step++) {
        struct batch *batch = fill(&state);
        while (atomic_load_explicit(&boxes[next].batch, memory_order_acquire) != NULL)
            n_drained += (size_t)drain(member, &checksum);
        atomic_store_explicit(&boxes[next].batch, batch, memory_order_release);
        n_drained += (size_t)drain(member, &checksum);
    }
    while (n_drained < crew.scale)
        n_drained += (size_t)drain(member, &checksum);
    return checksum;
}

int main(int n_arguments, char **arguments) {
    crew_read(n_arguments, arguments);
    return crew_run("xmalloc", work);
}
