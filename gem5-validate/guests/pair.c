/* Two threads: one allocates and fills SCALE blocks and hands them over through a ring, the other
 * checks and frees them; each also churns through blocks of its own.
 *
 * The ring has one writer and one reader and needs no lock; who finds it full or empty spins, so
 * the simulated machine needs a core for each.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "guest.h"

enum {
    RING = 64,
    OWN = 32, /* blocks each thread has to itself */
    LEAST = 16,
    RANGE = 240
};

struct message {
    size_t bytes; /* of the whole block */
    unsigned char content[];
};

static struct {
    _Atomic(struct message *) ring[RING]; /* NULL: a free place */
    size_t n_messages;
} shared;

struct churn {
    void *own[OWN];
    uint64_t state;
};

static void churn_once(struct churn *churn) {
    uint64_t bits = next_random(&churn->state);
    void **place = &churn->own[bits % OWN];
    free(*place);
    size_t bytes = LEAST + (bits >> 32) % RANGE;
    *place = need(bytes);
    memset(*place, 1, bytes);
}

static void churn_end(struct churn *churn) {
    for (size_t i = 0; i < OWN; i++)
        free(churn->own[i]);
}

static void *produce(void *nothing) {
    struct churn churn = {.state = 10};
    for (size_t i = 0; i < shared.n_messages; i++) {
        size_t bytes = sizeof(struct message) + LEAST + next_random(&churn.state) % RANGE;
        struct message *message = need(bytes);
        message->bytes = bytes;
        memset(message->content, (int)(i & 0xff), bytes - sizeof *message);
        while (atomic_load_explicit(&shared.ring[i % RING], memory_order_acquire) != NULL)
            ;
        atomic_store_explicit(&shared.ring[i % RING], message, memory_order_release);
        churn_once(&churn);
    }
    churn_end(&churn);
    return nothing;
}

static uint64_t consume(void) {
    struct churn churn = {.state = 11};
    uint64_t checksum = 0;
    for (size_t i = 0; i < shared.n_messages; i++) {
        struct message *message;
        do {
            message = atomic_load_explicit(&shared.ring[i % RING], memory_order_acquire);
        } while (message == NULL);
        atomic_store_explicit(&shared.ring[i % RING], NULL, memory_order_release);
        size_t last = message->bytes - sizeof *message - 1;
        checksum = checksum * 31 + message->bytes + message->content[last];
        free(message);
        churn_once(&churn);
    }
    churn_end(&churn);
    return checksum;
}

int main(int n_arguments, char **arguments) {
    shared.n_messages = read_scale(n_arguments, arguments);
    pthread_t producer;
    if (pthread_create(&producer, NULL, produce, NULL) != 0) {
        fprintf(stderr, "no second thread\n");
        return 1;
    }
    uint64_t checksum = consume();
    pthread_join(producer, NULL);
    return finish("pair", checksum);
}
