/* wander.c - workloads whose blocks are freed by other threads than the ones that allocated them.
 *
 * Sources: Larson and Krishnan, "Memory allocation for long-running server applications",
 * ISMM 1998; xmalloc: Lever and Boreham, "malloc() performance in a multithreaded Linux
 * environment", USENIX 2000.  An operation is one malloc and one free, wherever they happen.
 */
#include "workloads.h"

#include <pthread.h>

enum {
    LARSON_SLOTS = 1000,
    LARSON_LIFE = 50000, /* operations of one thread */
    LARSON_BATCH = 50,
    QUEUE_BATCH = 120, /* blocks handed over at once */
    QUEUE_BATCHES_A_THREAD = 4,
    SHORT_BLOCKS = 100, /* of one short thread */
    CHURN_SLOTS = 40000,
    CHURN_LIFE = 200000,
    CHURN_BATCH = 50,
    CHURN_DRIFT = 2000000 /* operations until the sizes have gone round */
};

/* A worker's place that one thread after the other takes. */
struct chair {
    struct worker *worker;
    void **slots;
    void *(*life)(void *chair);
};

static void sit(struct chair *chair) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, chair->life, chair) != 0)
        fail("pthread_create", "no further thread can be started");
    (void)pthread_join(thread, NULL);
}

static void *larson_life(void *argument) {
    struct chair *chair = argument;
    struct worker *worker = chair->worker;
    for (int done = 0; done < LARSON_LIFE && goes_on(worker); done += LARSON_BATCH) {
        for (int i = 0; i < LARSON_BATCH; i++) {
            size_t at = draw_between(worker, 0, LARSON_SLOTS - 1);
            (void)give_marked(worker, chair->slots[at]);
            chair->slots[at] = take_marked(worker, draw_between(worker, 16, 1000));
        }
        did(worker, LARSON_BATCH);
    }
    return NULL;
}

/* All are full from the start, or a fast allocator would be seen with more memory than a slow one.
 */
void fill_larson(struct worker *worker) {
    worker->slots = own_memory(LARSON_SLOTS * sizeof(void *));
    for (size_t i = 0; i < LARSON_SLOTS; i++)
        worker->slots[i] = take_marked(worker, draw_between(worker, 16, 1000));
}

void run_larson(struct worker *worker) {
    struct chair chair = {worker, worker->slots, larson_life};
    while (goes_on(worker))
        sit(&chair);
    for (size_t i = 0; i < LARSON_SLOTS; i++)
        (void)give_marked(worker, chair.slots[i]);
}

struct batch {
    void *blocks[QUEUE_BATCH];
};

/* A bounded queue; first + n <= both in units of batches, modulo room. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t has_room;
    pthread_cond_t has_some;
    struct batch *batches;
    size_t room;
    size_t first;
    size_t n;
    uint32_t n_producers; /* that have not ended */
};

void prepare_xmalloc(struct bench *bench) {
    struct queue *queue = own_memory(sizeof *queue);
    (void)pthread_mutex_init(&queue->lock, NULL);
    (void)pthread_cond_init(&queue->has_room, NULL);
    (void)pthread_cond_init(&queue->has_some, NULL);
    queue->room = (size_t)QUEUE_BATCHES_A_THREAD * bench->settings->threads;
    queue->batches = own_memory(queue->room * sizeof *queue->batches);
    queue->n_producers = bench->settings->threads / 2;
    bench->shared = queue;
}

static void put(struct queue *queue, const struct batch *batch) {
    (void)pthread_mutex_lock(&queue->lock);
    while (queue->n == queue->room)
        (void)pthread_cond_wait(&queue->has_room, &queue->lock);
    queue->batches[(queue->first + queue->n) % queue->room] = *batch;
    queue->n++;
    (void)pthread_cond_signal(&queue->has_some);
    (void)pthread_mutex_unlock(&queue->lock);
}

/* False when nothing is left and nothing will come. */
static bool get(struct queue *queue, struct batch *batch) {
    (void)pthread_mutex_lock(&queue->lock);
    while (queue->n == 0 && queue->n_producers > 0)
        (void)pthread_cond_wait(&queue->has_some, &queue->lock);
    bool is_there = queue->n > 0;
    if (is_there) {
        *batch = queue->batches[queue->first];
        queue->first = (queue->first + 1) % queue->room;
        queue->n--;
        (void)pthread_cond_signal(&queue->has_room);
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return is_there;
}

static void produce(struct worker *worker, struct queue *queue) {
    struct batch batch;
    uint64_t left = worker->bench->settings->operations;
    while (goes_on(worker) && left > 0) {
        for (int i = 0; i < QUEUE_BATCH; i++)
            batch.blocks[i] = take_marked(worker, draw_between(worker, 16, 512));
        put(queue, &batch);
        left -= left > QUEUE_BATCH ? QUEUE_BATCH : left;
    }
    (void)pthread_mutex_lock(&queue->lock);
    queue->n_producers--;
    (void)pthread_cond_broadcast(&queue->has_some);
    (void)pthread_mutex_unlock(&queue->lock);
}

static void consume(struct worker *worker, struct queue *queue) {
    struct batch batch;
    while (get(queue, &batch)) {
        (void)goes_on(worker);
        for (int i = 0; i < QUEUE_BATCH; i++)
            (void)give_marked(worker, batch.blocks[i]);
        did(worker, QUEUE_BATCH);
    }
}

void run_xmalloc(struct worker *worker) {
    struct queue *queue = worker->bench->shared;
    if (worker->index < worker->bench->settings->threads / 2)
        produce(worker, queue);
    else
        consume(worker, queue);
}

/* Free what the predecessor left, and leave as much to the successor. */
static void *short_life(void *argument) {
    struct chair *chair = argument;
    struct worker *worker = chair->worker;
    for (int i = 0; i < SHORT_BLOCKS; i++) {
        void *block = take_marked(worker, draw_between(worker, 16, 1024));
        (void)give_marked(worker, chair->slots[i]);
        chair->slots[i] = block;
    }
    did(worker, SHORT_BLOCKS);
    return NULL;
}

void run_thread_churn(struct worker *worker) {
    struct chair chair = {worker, own_memory(SHORT_BLOCKS * sizeof(void *)), short_life};
    while (goes_on(worker))
        sit(&chair);
    for (size_t i = 0; i < SHORT_BLOCKS; i++)
        (void)give_marked(worker, chair.slots[i]);
}

void prepare_churn(struct bench *bench) {
    bench->shared = own_memory(CHURN_SLOTS * sizeof(_Atomic(void *)));
}

/* Mostly small; the middle of the sizes moves through four powers of two and back. */
static size_t churn_size(struct worker *worker, uint64_t n_done) {
    uint64_t way = n_done % CHURN_DRIFT;
    size_t step = (size_t)(way * 8 / CHURN_DRIFT); /* 0 .. 7 */
    size_t shift = step < 4 ? step : 7 - step;
    size_t kind = draw_between(worker, 0, 99);
    if (kind == 0)
        return draw_between(worker, 4096, 65536);
    return draw_between(worker, 16, (size_t)128 << shift);
}

static void add_live(struct worker *worker, int64_t change) {
    int64_t before = atomic_load_explicit(&worker->live_bytes, memory_order_relaxed);
    atomic_store_explicit(&worker->live_bytes, before + change, memory_order_relaxed);
}

/* Each worker fills its share of the slots, as fill_larson does and for the same reason. */
void fill_churn(struct worker *worker) {
    _Atomic(void *) *slots = worker->bench->shared;
    for (size_t i = worker->index; i < CHURN_SLOTS; i += worker->bench->settings->threads) {
        size_t size = churn_size(worker, 0);
        atomic_store_explicit(&slots[i], take_marked(worker, size), memory_order_release);
        add_live(worker, (int64_t)size);
    }
}

static void *churn_life(void *argument) {
    struct chair *chair = argument;
    struct worker *worker = chair->worker;
    _Atomic(void *) *slots = worker->bench->shared;
    uint64_t done = atomic_load_explicit(&worker->operations, memory_order_relaxed);
    for (int age = 0; age < CHURN_LIFE && goes_on(worker); age += CHURN_BATCH) {
        int64_t change = 0;
        for (int i = 0; i < CHURN_BATCH; i++) {
            size_t size = churn_size(worker, done);
            void *block = take_marked(worker, size);
            size_t at = draw_between(worker, 0, CHURN_SLOTS - 1);
            void *old = atomic_exchange_explicit(&slots[at], block, memory_order_acq_rel);
            change += (int64_t)size - (int64_t)give_marked(worker, old);
            done++;
        }
        add_live(worker, change);
        did(worker, CHURN_BATCH);
    }
    return NULL;
}

void run_churn(struct worker *worker) {
    struct chair chair = {worker, NULL, churn_life};
    _Atomic(void *) *slots = worker->bench->shared;
    while (goes_on(worker))
        sit(&chair);
    for (size_t i = 0; i < CHURN_SLOTS; i++)
        (void)give_marked(worker, atomic_exchange_explicit(&slots[i], NULL, memory_order_acq_rel));
}
