/* test_threads.c - memory that crosses threads comes back and does not pile up. */
#include <pthread.h>
#include <string.h>

#include "base/options.h"
#include "exgen.h"
#include "heap/heap.h"
#include "memory/link.h"
#include "memory/pool.h"
#include "system/os.h"
#include "test.h"
#include "thread/registry.h"
#include "thread/remote.h"
#include "thread/thread.h"

enum {
    N_ROUNDS = 200,
    N_BLOCKS = 2000,
    N_GENERATIONS = 300
};

static void *taken_by_others[7];

/* --- producer and consumer --- */

static void *blocks[N_BLOCKS];

static void allocate_all(size_t bytes) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = exgen_malloc(bytes);
}

static void free_all(void) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        exgen_free(blocks[i]);
}

static pthread_barrier_t turn;

static void *consume(void *unused) {
    for (size_t round = 0; round < N_ROUNDS; round++) {
        pthread_barrier_wait(&turn);
        free_all();
        pthread_barrier_wait(&turn);
    }
    return unused;
}

static void producer_gets_its_memory_back(void) {
    pthread_t consumer;
    size_t early = 0;
    pthread_barrier_init(&turn, NULL, 2);
    EXPECT(pthread_create(&consumer, NULL, consume, NULL) == 0);
    for (size_t round = 0; round < N_ROUNDS; round++) {
        for (size_t i = 0; i < N_BLOCKS; i++) {
            blocks[i] = exgen_malloc(16 + i % 500);
            EXPECT(blocks[i] != NULL);
            memset(blocks[i], 1, 16);
        }
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        if (round == 10)
            early = stats().mapped_bytes;
    }
    EXPECT(pthread_join(consumer, NULL) == 0);
    EXPECT(stats().mapped_bytes <= early);
}

/* --- blocks that other threads freed --- */

static void *free_all_blocks(void *unused) {
    free_all();
    return unused;
}

static void let_another_free(void) {
    allocate_all(100);
    run_thread(free_all_blocks, NULL);
    EXPECT(exchange_has_any());
}

/* Their lines of the cache stay where they are. */
static void others_blocks_are_not_touched(void) {
    enum {
        BYTES = 100,
        N_FREED = 200
    };
    static unsigned char as_left[BYTES];
    memset(as_left, 7, BYTES);
    for (size_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = i < N_FREED ? memset(exgen_malloc(BYTES), 7, BYTES) : NULL;
    run_thread(free_all_blocks, NULL);
    EXPECT(exchange_has_any());
    for (size_t i = 0; i < N_FREED; i++)
        EXPECT(memcmp(blocks[i], as_left, BYTES) == 0);
    exgen_purge();
}

static void *allocate_all_blocks(void *unused) {
    allocate_all(100);
    return unused;
}

static void what_one_thread_freed_serves_another(void) {
    let_another_free();
    size_t before = stats().all_blocks;
    run_thread(allocate_all_blocks, NULL);
    EXPECT(stats().all_blocks < before + N_BLOCKS / 10);
    run_thread(free_all_blocks, NULL);
    exgen_purge();
    EXPECT(!exchange_has_any());
}

static void send_home_what_is_idle_at(uint64_t now_ms) {
    while (remote_send_idle_home(now_ms)) {
    }
}

static void what_nobody_wants_goes_home(void) {
    let_another_free();
    uint64_t soon = os_clock_ms() + options.purge_delay; /* no look is due later than that */
    size_t before = stats().all_blocks;
    send_home_what_is_idle_at(soon);
    send_home_what_is_idle_at(soon + options.purge_delay);
    EXPECT(!exchange_has_any());
    remote_drain_slowly(local.heap, SIZE_MAX);
    EXPECT(stats().all_blocks <= before - N_BLOCKS * 9 / 10);
}

/* A thread that frees its own and others' blocks by turns keeps both on the same lists. */
static void *mix_all_blocks(void *unused) {
    static void *own[N_BLOCKS];
    size_t before = stats().n_blocks;
    for (size_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < N_BLOCKS; i++)
            own[i] = exgen_malloc(16 + i % 500);
        for (size_t i = 0; i < N_BLOCKS; i++) {
            exgen_free(own[i]);
            exgen_free(blocks[i]);
            blocks[i] = exgen_malloc(16 + (i + round) % 500);
            memset(blocks[i], 1, 16);
        }
        EXPECT(exgen_validate_heap());
    }
    EXPECT(local.mixed != NULL);
    free_all();
    EXPECT(exgen_validate_heap());
    remote_flush(local.heap);
    EXPECT(stats().n_blocks == before);
    return unused;
}

static void own_and_others_blocks_by_turns(void) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = exgen_malloc(16 + i % 500);
    run_thread(mix_all_blocks, NULL);
}

/* --- blocks that arrive where they do not belong any more --- */

static pthread_barrier_t given;
static struct heap *owner;
static void *stray;

static void *own_the_stray(void *unused) {
    static void *others[1024]; /* what other threads have freed is not its own */
    size_t n = 0;
    while (superblock_owner(superblock_of((uintptr_t)(stray = exgen_malloc(200)))) != local.heap) {
        EXPECT(n < 1024);
        others[n++] = stray;
    }
    while (n > 0)
        exgen_free(others[--n]);
    owner = local.heap;
    pthread_barrier_wait(&given);
    pthread_barrier_wait(&given); /* here it arrives */
    size_t before = stats().n_blocks;
    EXPECT(__atomic_load_n(&owner->inbox, __ATOMIC_RELAXED) == stray);
    remote_drain_slowly(owner, SIZE_MAX);
    EXPECT(stats().n_blocks == before - 1);
    EXPECT(exgen_validate_heap());
    return unused;
}

/* As after an adoption: a block comes to a heap that does not own it, which sends it on. */
static void a_stray_block_is_sent_on(void) {
    pthread_t thread;
    exgen_free(exgen_malloc(200));
    pthread_barrier_init(&given, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, own_the_stray, NULL) == 0);
    pthread_barrier_wait(&given);
    remote_drain_slowly(local.heap, SIZE_MAX);
    void *bundle = NULL;
    link_push(&bundle, stray); /* of one */
    __atomic_store_n(&local.heap->inbox, bundle, __ATOMIC_RELAXED);
    remote_drain_slowly(local.heap, SIZE_MAX);
    EXPECT(exgen_validate_heap());
    pthread_barrier_wait(&given);
    EXPECT(pthread_join(thread, NULL) == 0);
}

/* --- blocks that were sent home --- */

enum {
    N_BETWEEN = 8, /* so few of a slab that it stays asleep */
    SENT_BYTES = 640
};

static void *send_some_home(void *unused) {
    for (size_t i = 0; i < N_BLOCKS; i += N_BETWEEN)
        remote_free_slowly(NULL, blocks[i]);
    return unused;
}

static void free_what_stayed(void) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (i % N_BETWEEN != 0)
            exgen_free(blocks[i]);
}

static bool was_sent(const void *block) {
    size_t i = 0;
    while (i < N_BLOCKS && blocks[i] != block)
        i += N_BETWEEN;
    return i < N_BLOCKS;
}

static void what_came_home_is_used_before_new_memory(void) {
    enum {
        N_MORE = 2 * N_BLOCKS / N_BETWEEN
    };
    void *more[N_MORE];
    size_t n_used = 0;
    allocate_all(SENT_BYTES);
    run_thread(send_some_home, NULL);
    for (size_t i = 0; i < N_MORE; i++) {
        more[i] = exgen_malloc(SENT_BYTES);
        n_used += was_sent(more[i]);
    }
    EXPECT(n_used == N_BLOCKS / N_BETWEEN);
    free_what_stayed();
    for (size_t i = 0; i < N_MORE; i++)
        exgen_free(more[i]);
}

/* A mark would have the heap search its lists for each of them. */
static void what_came_home_looks_no_freer_than_before(void) {
    void *taken[N_INBOX];
    size_t n;
    for (size_t i = 0; i < N_BLOCKS; i++)
        blocks[i] = memset(exgen_malloc(10 * SENT_BYTES), 1, SENT_BYTES);
    run_thread(send_some_home, NULL);
    while ((n = inbox_take(local.heap, taken, N_INBOX)) > 0)
        for (size_t i = 0; i < n; i++) {
            EXPECT(!was_sent(taken[i]) || !link_is_marked(taken[i])); /* others come late */
            exgen_free(taken[i]);
        }
    free_what_stayed();
}

static void *send_home_before_some(void *block) {
    remote_free_slowly(NULL, block);
    return send_some_home(NULL);
}

static void a_large_block_does_not_wait_behind_small_ones(void) {
    enum {
        LARGE_BYTES = 40000
    };
    void *large = exgen_malloc(LARGE_BYTES);
    allocate_all(SENT_BYTES);
    run_thread(send_home_before_some, large);
    EXPECT(exgen_malloc(LARGE_BYTES) == large);
    exgen_free(large);
    free_what_stayed();
}

/* --- threads that come and go --- */

static void *left[N_GENERATIONS];

/* Leave one block behind, free the one of ten generations ago. */
static void *live_and_die(void *argument) {
    size_t generation = (size_t)(uintptr_t)argument;
    void *own[100];
    for (size_t i = 0; i < 100; i++) {
        own[i] = exgen_malloc(1000 + i * 37);
        EXPECT(own[i] != NULL);
    }
    for (size_t i = 1; i < 100; i++)
        exgen_free(own[i]);
    left[generation] = own[0];
    if (generation >= 10)
        exgen_free(left[generation - 10]);
    return NULL;
}

static void thread_churn_does_not_grow(void) {
    size_t early = 0;
    for (size_t generation = 0; generation < N_GENERATIONS; generation++) {
        run_thread(live_and_die, (void *)(uintptr_t)generation);
        if (generation == 30)
            early = stats().mapped_bytes;
    }
    EXPECT(stats().mapped_bytes <= early + layout.bytes);
    for (size_t i = N_GENERATIONS - 10; i < N_GENERATIONS; i++)
        exgen_free(left[i]);
}

/* --- orphans --- */

static void *take_4_mib(void *where) {
    void **taken = where;
    for (size_t i = 0; i < 4096; i++)
        taken[i] = exgen_malloc(1024);
    return NULL;
}

static void memory_of_the_dead_is_used_again(void) {
    static void *taken[4096];
    run_thread(take_4_mib, taken);
    for (size_t i = 0; i < 4096; i++)
        if (i % 64 != 0)
            exgen_free(taken[i]);
    exgen_purge();
    size_t before = stats().mapped_bytes;
    static void *mine[3500];
    for (size_t i = 0; i < 3500; i++)
        mine[i] = exgen_malloc(1024);
    EXPECT(stats().mapped_bytes <= before + layout.bytes);
    EXPECT(exgen_validate_heap());
    for (size_t i = 0; i < 3500; i++)
        exgen_free(mine[i]);
    for (size_t i = 0; i < 4096; i += 64)
        exgen_free(taken[i]);
}

/* --- what others do for them --- */

enum {
    N_SENT = 100000,
    N_A_LOOK = 2000 /* more than one look takes */
};

static void *sent[N_SENT];

static void *allocate_sent(void *unused) {
    for (size_t i = 0; i < N_SENT; i++)
        sent[i] = exgen_malloc(64);
    return unused;
}

static void send_to_an_orphan(void) {
    run_thread(allocate_sent, NULL);
    for (size_t i = 0; i < N_SENT; i++)
        remote_free_slowly(NULL, sent[i]);
}

/* A look is at few blocks, and says that there are more. */
static void orphans_get_a_few_blocks_at_a_time(void) {
    send_to_an_orphan();
    size_t before = stats().all_blocks;
    size_t n_looks = 0;
    for (size_t last = before; thread_collect(os_clock_ms(), N_SENT); n_looks++) {
        size_t now = stats().all_blocks;
        EXPECT(now < last && last - now < N_A_LOOK);
        last = now;
    }
    EXPECT(n_looks >= N_SENT / N_A_LOOK && stats().all_blocks <= before - N_SENT);
}

static void an_adoption_frees_a_few_blocks(void) {
    send_to_an_orphan();
    size_t before = stats().all_blocks;
    EXPECT(thread_adopt(local.heap));
    EXPECT(stats().all_blocks <= before && before - stats().all_blocks < N_A_LOOK);
    exgen_purge();
    EXPECT(stats().all_blocks <= before - N_SENT);
}

/* In between, so that its superblock stays. */
static void *leave_units(void *blocks_left) {
    char **three = blocks_left;
    for (size_t i = 0; i < 3; i++)
        three[i] = memset(exgen_malloc(100000), 1, 100000);
    exgen_free(three[1]);
    three[1] = (char *)local.heap;
    return NULL;
}

/* Runs of less than purge_min stay, such as the first units of superblocks, behind their heads. */
static void a_purge_takes_all_of_an_orphan(void) {
    char *three[3];
    run_thread(leave_units, three);
    const struct heap *orphan = (struct heap *)three[1];
    EXPECT(kept_bytes(orphan) + orphan->n_dirty * UNIT_BYTES >= 100000);
    exgen_purge();
    EXPECT(!orphan->is_parked && kept_bytes(orphan) == 0);
    EXPECT(orphan->n_dirty <= orphan->n_superblocks);
    exgen_free(three[0]);
    exgen_free(three[2]);
}

/* --- small heaps, which wait with their lists for the next thread --- */

static void *first_left;

static void *leave_lists(void *place) {
    static void *some[1024];
    size_t n = 0;
    do
        some[n++] = exgen_malloc(80);
    while (local.free[class_of(80)] == NULL && n < 1024);
    while (n > 0)
        exgen_free(some[--n]);
    first_left = local.free[class_of(80)];
    EXPECT(first_left != NULL);
    *(struct heap **)place = local.heap;
    return NULL;
}

static void *find_lists(void *heap) {
    exgen_free(exgen_malloc(3000));
    EXPECT(local.heap == heap && !local.heap->is_parked && local.heap->parked_lists == 0);
    EXPECT(local.free[class_of(80)] == first_left);
    EXPECT(exgen_validate_heap());
    return NULL;
}

static void short_threads_leave_their_lists(void) {
    struct heap *heap;
    exgen_purge();
    size_t before = stats().all_blocks;
    run_thread(leave_lists, &heap);
    EXPECT(heap->is_parked && exgen_validate_heap());
    run_thread(find_lists, heap);
    EXPECT(heap->is_parked);
    EXPECT(stats().all_blocks == before && !heap->is_parked);
    run_thread(leave_lists, &heap);
    EXPECT(heap->is_parked && thread_has_parked());
    thread_collect(heap->purge_ms - 1, 100);
    EXPECT(heap->is_parked);
    thread_collect(heap->purge_ms, 100);
    EXPECT(!heap->is_parked && !thread_has_parked());
}

/* --- what a thread costs --- */

/* One holds the head and the heap's first fields, one the rest of the heap and the block. */
static void *touch_two_pages(void *of_another) {
    char *block = exgen_malloc(8);
    *block = 1;
    exgen_free(of_another);
    EXPECT(local.heap == superblock_heap_place(local.heap->superblocks));
    EXPECT(test_resident_pages(superblock_start(local.heap->superblocks), layout.bytes) <= 2);
    exgen_free(block);
    return NULL;
}

static pthread_barrier_t all_began;

static void *begin_and_end(void *unused) {
    char *block = exgen_malloc(20000);
    memset(block, 1, 20000);
    pthread_barrier_wait(&all_began);
    exgen_free(block);
    return unused;
}

/* More heaps than the pool keeps superblocks: their heads stay, of the others nothing. */
static void heaps_outlive_their_threads(void) {
    enum {
        N = 12
    };
    pthread_t threads[N];
    exgen_purge();
    size_t before = stats().mapped_bytes;
    pthread_barrier_init(&all_began, NULL, N);
    for (size_t i = 0; i < N; i++)
        EXPECT(pthread_create(&threads[i], NULL, begin_and_end, NULL) == 0);
    for (size_t i = 0; i < N; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(pool_count() == options.pool_superblocks);
    exgen_purge();
    EXPECT(stats().mapped_bytes <=
           before + N * UNIT_BYTES + options.pool_superblocks * layout.bytes);
    EXPECT(exgen_validate_heap());
}

/* --- statistics and leaks of all heaps --- */

static void *leave_seven(void *unused) {
    for (size_t i = 0; i < 7; i++)
        taken_by_others[i] = exgen_malloc(200);
    return unused;
}

static void *leave_kept(void *heap) {
    void *on_trays[20];
    for (size_t i = 0; i < 20; i++)
        on_trays[i] = exgen_malloc(20000);
    for (size_t i = 0; i < 20; i++)
        exgen_free(on_trays[i]);
    *(struct heap **)heap = local.heap;
    return NULL;
}

static void what_an_ended_thread_keeps_is_not_in_use(void) {
    struct heap *heap;
    exgen_purge();
    size_t before = stats().all_blocks;
    run_thread(leave_kept, &heap);
    EXPECT(heap->is_parked);
    EXPECT(stats().all_blocks == before);
    EXPECT(exgen_check_leaks(0) == before + stats().n_large);
}

static pthread_barrier_t counted;

static void *hold_seven(void *unused) {
    leave_seven(unused);
    pthread_barrier_wait(&counted);
    pthread_barrier_wait(&counted);
    return unused;
}

static void all_heaps_are_counted(void) {
    exgen_purge(); /* of other heaps' blocks that this thread freed some are still on their way */
    size_t before = stats().all_blocks;
    EXPECT(exgen_check_leaks(0) == before + stats().n_large);
    run_thread(leave_seven, NULL);
    EXPECT(stats().all_blocks == before + 7);
    EXPECT(exgen_check_leaks(0) == before + 7 + stats().n_large);
    for (size_t i = 0; i < 7; i++)
        exgen_free(taken_by_others[i]);
    exgen_purge();
    EXPECT(stats().all_blocks == before);
    /* Of a running thread's heap at least what is in use. */
    pthread_t thread;
    pthread_barrier_init(&counted, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, hold_seven, NULL) == 0);
    pthread_barrier_wait(&counted);
    EXPECT(stats().all_blocks >= before + 7 && stats().all_superblocks >= stats().n_superblocks);
    EXPECT(exgen_validate_heap());
    pthread_barrier_wait(&counted);
    EXPECT(pthread_join(thread, NULL) == 0);
    for (size_t i = 0; i < 7; i++)
        exgen_free(taken_by_others[i]);
}

/* --- a thread-specific destructor that allocates after ours ran --- */

static pthread_key_t late_key;
static size_t n_late; /* calls of the destructor that are to come */

/* As of a logger that makes its buffer anew; the last time no destructor is called any more. */
static void late_destructor(void *block) {
    if (block != &n_late)
        exgen_free(block);
    char *zeros = exgen_calloc(100, 100);
    EXPECT(zeros != NULL && zeros[9999] == 0);
    exgen_free(zeros);
    exgen_free(exgen_memalign(256, 100000));
    exgen_free(exgen_realloc(exgen_malloc(100), 5000));
    if (n_late > 0) {
        n_late--;
        pthread_setspecific(late_key, &n_late);
    }
}

static void *use_late_key(void *unused) {
    exgen_free(exgen_malloc(1));
    pthread_setspecific(late_key, exgen_malloc(50));
    return unused;
}

static void late_destructors_may_allocate(void) {
    EXPECT(pthread_key_create(&late_key, late_destructor) == 0);
    run_thread(use_late_key, NULL);
    size_t before = registry_count();
    for (size_t i = 0; i < 10; i++) {
        n_late = EXGEN_SANITIZED ? 0 : i; /* TSan ends a thread before its last destructor */
        run_thread(use_late_key, NULL);
    }
    EXPECT(registry_count() == before && registry_count_threads() == 1);
    EXPECT(exgen_validate_heap());
}

/* --- more threads than owner numbers --- */

enum {
    N_THREADS = 300
};

static pthread_barrier_t all_here;
static void *left_by_many[N_THREADS];

static void *allocate_among_many(void *place) {
    void *p = exgen_malloc(100);
    pthread_barrier_wait(&all_here);
    exgen_free(p);
    exgen_free(exgen_malloc(3000));
    EXPECT(exgen_validate_heap());
    *(void **)place = exgen_malloc(500);
    return NULL;
}

static void *has_a_number(void *unused) {
    exgen_free(exgen_malloc(100));
    EXPECT(local.number != OWNER_NOBODY);
    return unused;
}

/* Those that come later have numbers, and few orphans stand for many threads. */
static void more_threads_than_numbers(void) {
    static pthread_t threads[N_THREADS];
    exgen_purge();
    size_t before = stats().mapped_bytes;
    pthread_attr_t small_stack;
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, 131072);
    pthread_barrier_init(&all_here, NULL, N_THREADS);
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_create(&threads[i], &small_stack, allocate_among_many, &left_by_many[i]) ==
               0);
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(stats().n_orphans <= 16 + N_THREADS / 10); /* some end at the same time */
    for (size_t i = 0; i < 20; i++)
        run_thread(has_a_number, NULL);
    for (size_t i = 0; i < N_THREADS; i++)
        exgen_free(left_by_many[i]);
    exgen_purge();
    EXPECT(stats().mapped_bytes <= before + (size_t)N_THREADS * UNIT_BYTES + 8 * layout.bytes);
}

static void *end_in_a_fall(void *unused) {
    blocks[0] = exgen_malloc(100);
    struct heap *heap = local.heap;
    heap->is_falling = true;
    heap->fall_next = heap->shed_next = heap->superblocks;
    return heap->superblocks != NULL ? heap : unused;
}

static void a_fall_ends_with_its_thread(void) {
    const struct heap *heap = run_thread(end_in_a_fall, NULL);
    EXPECT(heap != NULL && !heap->is_falling);
    EXPECT(heap->fall_next == NULL && heap->shed_next == NULL);
    exgen_free(blocks[0]);
}

/* --- many threads, one after the other --- */

static void *replace_block(void *place) {
    void **block = place;
    void *own[20];
    for (size_t i = 0; i < 20; i++)
        own[i] = exgen_malloc(16 + 97 * i);
    exgen_free(*block);
    *block = exgen_malloc(100);
    for (size_t i = 0; i < 20; i++)
        exgen_free(own[i]);
    return NULL;
}

/* Ten thousand, ten at a time, of which each leaves a block that a later one frees. */
static void memory_does_not_grow_with_threads_that_were(void) {
    enum {
        N_AT_ONCE = 10,
        N_TURNS = 1000
    };
    static void *places[N_AT_ONCE];
    size_t early = 0;
    for (size_t round = 0; round < N_TURNS; round++) {
        pthread_t threads[N_AT_ONCE];
        for (size_t i = 0; i < N_AT_ONCE; i++)
            EXPECT(pthread_create(&threads[i], NULL, replace_block, &places[i]) == 0);
        for (size_t i = 0; i < N_AT_ONCE; i++)
            EXPECT(pthread_join(threads[i], NULL) == 0);
        if (round == N_TURNS / 10)
            early = stats().mapped_bytes;
    }
    EXPECT(stats().mapped_bytes <= early + N_AT_ONCE * layout.bytes);
    for (size_t i = 0; i < N_AT_ONCE; i++)
        exgen_free(places[i]);
}

int main(void) {
    exgen_free(exgen_malloc(1));
    run_thread(touch_two_pages, exgen_malloc(100));
    producer_gets_its_memory_back();
    others_blocks_are_not_touched();
    what_one_thread_freed_serves_another();
    what_nobody_wants_goes_home();
    own_and_others_blocks_by_turns();
    a_stray_block_is_sent_on();
    what_came_home_is_used_before_new_memory();
    what_came_home_looks_no_freer_than_before();
    a_large_block_does_not_wait_behind_small_ones();
    thread_churn_does_not_grow();
    memory_of_the_dead_is_used_again();
    orphans_get_a_few_blocks_at_a_time();
    an_adoption_frees_a_few_blocks();
    a_purge_takes_all_of_an_orphan();
    short_threads_leave_their_lists();
    a_fall_ends_with_its_thread();
    all_heaps_are_counted();
    what_an_ended_thread_keeps_is_not_in_use();
    late_destructors_may_allocate();
    heaps_outlive_their_threads();
    more_threads_than_numbers();
    memory_does_not_grow_with_threads_that_were();
    exgen_purge();
    EXPECT(exgen_validate_heap());
    EXPECT(exgen_check_leaks(1) == 0);
    EXPECT(stats().n_orphans == 0);
    return test_passed();
}
