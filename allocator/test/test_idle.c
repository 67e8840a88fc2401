/* test_idle.c - what threads hold that rest, or left when they ended, goes back by the hand of
 * another.
 *
 * The linker sends os_clock_ms and os_purge to the functions below (--wrap).  A machine without
 * membarrier cannot do this: exit code 77.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/options.h"
#include "exgen.h"
#include "heap/visit.h"
#include "memory/link.h"
#include "system/os.h"
#include "test.h"
#include "thread/housekeeping.h"
#include "thread/thread.h"

enum {
    N_THREADS = 4,
    N_BLOCKS = 400, /* of each thread */
    KEPT = 20,      /* ... of which every so many-th stays in use */
    LEAST = 5000,   /* bytes of a block */
    MOST = 60000,
    HELD_LEAST = N_THREADS * (N_BLOCKS / KEPT) * MOST /* more than what is left in use */
};

static uint64_t clock_ms = 1000000;
static pthread_barrier_t barrier;
static pthread_barrier_t two; /* of two threads */

uint64_t __wrap_os_clock_ms(void);
uint64_t __wrap_os_clock_ms(void) {
    return __atomic_load_n(&clock_ms, __ATOMIC_RELAXED);
}

struct work {
    uint64_t random;
    unsigned char *blocks[N_BLOCKS];
    size_t bytes[N_BLOCKS];
    struct heap *heap;
};

static void fill(struct work *w, size_t i) {
    w->bytes[i] = LEAST + test_random(&w->random) % (MOST - LEAST);
    w->blocks[i] = memset(exgen_malloc(w->bytes[i]), (int)i, w->bytes[i]);
}

static void give(struct work *w, size_t i) {
    EXPECT(w->blocks[i][0] == (unsigned char)i);
    EXPECT(w->blocks[i][w->bytes[i] - 1] == (unsigned char)i);
    exgen_free(w->blocks[i]);
    w->blocks[i] = NULL;
}

static void burst(struct work *w) {
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (w->blocks[i] == NULL)
            fill(w, i);
    for (size_t i = 0; i < N_BLOCKS; i++)
        if (i % KEPT != 0)
            give(w, i);
}

static void finish(struct work *w) {
    burst(w); /* the heap is as good as ever */
    for (size_t i = 0; i < N_BLOCKS; i += KEPT)
        give(w, i);
    EXPECT(exgen_validate_heap());
}

static void *burst_and_rest(void *argument) {
    struct work *w = argument;
    burst(w);
    w->heap = local.heap;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    finish(w);
    return NULL;
}

static struct work works[N_THREADS];

/* Free memory that the threads hold: units that may be touched, and what is kept. */
static size_t held_bytes(void) {
    size_t bytes = 0;
    for (size_t i = 0; i < N_THREADS; i++)
        bytes += (works[i].heap->n_dirty << 14) + kept_bytes(works[i].heap);
    return bytes;
}

/* Runs of units below purge_min stay: here hardly one a thread. */
static bool little_is_held(void) {
    return held_bytes() < N_THREADS * options.purge_min;
}

/* The threads are new, whatever those before them did that had their heaps. */
static void with_resting_threads(void (*look)(void)) {
    pthread_t threads[N_THREADS];
    exgen_free(exgen_malloc(1));
    for (size_t i = 0; i < N_THREADS; i++) {
        works[i] = (struct work){.random = i};
        pthread_create(&threads[i], NULL, burst_and_rest, &works[i]);
    }
    pthread_barrier_wait(&barrier);
    EXPECT(held_bytes() > HELD_LEAST / 4);
    look();
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
}

static void purge(void) {
    exgen_purge();
    EXPECT(little_is_held());
}

static void tick(void) {
    for (size_t i = 0; i < 4096; i++)
        housekeeping_tick(local.heap);
}

/* A thread that works looks every purge_delay; what rested between two looks at it goes.  Looks go
 * on where the last one, of whichever thread, ended, so that two may be needed for all heaps. */
static void work_on(void) {
    enum {
        N_LOOKS = 4
    };
    size_t held = held_bytes();
    tick();
    EXPECT(held_bytes() == held);
    for (size_t i = 0; i < N_LOOKS; i++) {
        clock_ms += options.purge_delay + 1;
        tick();
    }
    EXPECT(little_is_held());
}

/* What the thread of the library does. */
static void look_at_all(void) {
    size_t held = held_bytes();
    thread_look_at_all();
    EXPECT(held_bytes() == held);
    clock_ms += options.purge_delay;
    thread_look_at_all();
    EXPECT(little_is_held());
}

/* --- a thread that comes back --- */

static const size_t RESTS[] = {1, 2, 4, 8, 16, 16, 1}; /* until a visit, times purge_delay */

enum {
    N_RESTS = sizeof RESTS / sizeof RESTS[0],
    LATE = 8 /* ... after a visit: to come back then is not soon */
};

static void *rest_again(void *argument) {
    struct work *w = argument;
    for (size_t i = 0; i < N_RESTS; i++) {
        burst(w);
        w->heap = local.heap;
        pthread_barrier_wait(&two);
        pthread_barrier_wait(&two);
    }
    finish(w);
    return NULL;
}

/* How many times purge_delay pass until the heap gave back what it can. */
static size_t delays_until_visit(const struct heap *heap) {
    size_t n = 0;
    thread_look_at_all();
    while ((heap->n_dirty << UNIT_SHIFT) + kept_bytes(heap) >= options.purge_min && n < 100) {
        n++;
        clock_ms += options.purge_delay;
        thread_look_at_all();
    }
    return n;
}

static void visits_wait_longer_for_a_thread_that_comes_back_soon(void) {
    pthread_t thread;
    struct work *w = &works[0];
    *w = (struct work){.random = 1};
    pthread_create(&thread, NULL, rest_again, w);
    for (size_t i = 0; i < N_RESTS; i++) {
        pthread_barrier_wait(&two);
        EXPECT(delays_until_visit(w->heap) == RESTS[i]);
        clock_ms += i == N_RESTS - 2 ? LATE * options.purge_delay : 0;
        pthread_barrier_wait(&two);
    }
    pthread_join(thread, NULL);
}

/* --- a heap with much to give back --- */

enum {
    N_LONG = 1000,
    LONG = 60000 /* bytes; 64 MB in all */
};

static char *many[N_LONG];
static struct heap *rich; /* its thread's */
static int n_purges;      /* atomic: of memory of that heap */
static bool is_back;      /* atomic: the thread needs memory */
static bool comes_back;

bool __real_os_purge(void *start, size_t bytes, uint64_t how);
bool __wrap_os_purge(void *start, size_t bytes, uint64_t how);
bool __wrap_os_purge(void *start, size_t bytes, uint64_t how) {
    bool is_visit = comes_back && __atomic_load_n(&rich->has_visitor, __ATOMIC_RELAXED);
    if (is_visit && __atomic_fetch_add(&n_purges, 1, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(&is_back, true, __ATOMIC_RELAXED);
        while (!heap_visitor_is_awaited())
            sched_yield();
    }
    return __real_os_purge(start, bytes, how);
}

static size_t rich_bytes(void) {
    return (rich->n_dirty << UNIT_SHIFT) + kept_bytes(rich);
}

static void *become_rich(void *unused) {
    for (size_t i = 0; i < N_LONG; i++)
        many[i] = memset(exgen_malloc(LONG), 1, LONG);
    for (size_t i = 0; i < N_LONG; i++)
        if (i % KEPT != 0)
            exgen_free(many[i]);
    rich = local.heap;
    pthread_barrier_wait(&two);
    while (comes_back && !__atomic_load_n(&is_back, __ATOMIC_RELAXED))
        sched_yield();
    if (comes_back) {
        exgen_free(exgen_malloc(LEAST));
        EXPECT(rich_bytes() > N_LONG * LONG / 4);
    }
    pthread_barrier_wait(&two);
    for (size_t i = 0; i < N_LONG; i += KEPT)
        exgen_free(many[i]);
    return unused;
}

static void with_rich_thread(void (*look)(void)) {
    pthread_t thread;
    pthread_create(&thread, NULL, become_rich, NULL);
    pthread_barrier_wait(&two);
    EXPECT(rich_bytes() > N_LONG * LONG / 2);
    look();
    pthread_barrier_wait(&two);
    pthread_join(thread, NULL);
    comes_back = false;
}

static void visit_of_a_working_thread_takes_a_part(void) {
    enum {
        N_LOOKS = 20
    };
    for (size_t i = 0; i < 2; i++) {
        clock_ms += options.purge_delay + 1;
        tick();
    }
    EXPECT(rich_bytes() > N_LONG * LONG / 4);
    for (size_t i = 0; i < N_LOOKS; i++) {
        clock_ms += options.purge_delay + 1;
        tick();
    }
    EXPECT(rich_bytes() < 4 * options.purge_min);
}

/* --- visitors while all work --- */

enum {
    N_ROUNDS = 40
};

static void *burst_often(void *argument) {
    struct work *w = argument;
    for (size_t i = 0; i < N_ROUNDS; i++)
        burst(w);
    finish(w);
    return NULL;
}

static void visits_leave_working_threads_alone(void) {
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        works[i] = (struct work){.random = i};
        pthread_create(&threads[i], NULL, burst_often, &works[i]);
    }
    for (size_t i = 0; i < 50 * N_ROUNDS; i++) {
        __atomic_add_fetch(&clock_ms, 10, __ATOMIC_RELAXED);
        exgen_purge();
    }
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT(exgen_validate_heap() && exgen_check_leaks(1) == 0);
}

/* --- a look into what is kept after a visit --- */

static bool is_purged; /* atomic, and orders nothing: the heap has to */

static void *look_for_marked(void *unused) {
    char *marked = exgen_malloc(LEAST);
    exgen_free(exgen_malloc(LEAST));
    link_mark(marked); /* as memory may bear it that the program never wrote */
    pthread_barrier_wait(&two);
    while (!__atomic_load_n(&is_purged, __ATOMIC_RELAXED))
        sched_yield();
    EXPECT(exgen_malloc_usable_size(marked) >= LEAST);
    exgen_free(marked);
    return unused;
}

static void visits_come_before_looks_into_what_is_kept(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, look_for_marked, NULL);
    pthread_barrier_wait(&two);
    exgen_purge();
    __atomic_store_n(&is_purged, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

/* --- a thread that never allocated: it may be there for nothing else --- */

static void *burst_and_end(void *argument) {
    struct work *w = argument;
    w->heap = thread_attach();
    burst(w);
    return NULL;
}

static void *free_and_end(void *unused) {
    exgen_free(exgen_malloc(100)); /* which stays in a list of the heap */
    return unused;
}

static void *purge_from_outside(void *unused) {
    exgen_purge();
    EXPECT(local.heap == NULL);
    return unused;
}

static void *count_from_outside(void *n) {
    EXPECT(exgen_check_leaks(0) == (size_t)n);
    EXPECT(local.heap == NULL);
    return NULL;
}

static void what_ended_threads_left_is_reached_from_outside(void) {
    struct work *w = &works[0];
    *w = (struct work){.random = 1};
    run_thread(free_and_end, NULL);
    run_thread(count_from_outside, (void *)0);
    run_thread(burst_and_end, w);
    EXPECT(w->heap->n_dirty << 14 > N_BLOCKS / KEPT * MOST);
    run_thread(purge_from_outside, NULL);
    EXPECT(w->heap->n_dirty << 14 < 4 * options.purge_min);
    run_thread(count_from_outside, (void *)(N_BLOCKS / KEPT));
    finish(w);
}

int main(void) {
    if (!os_fence_threads()) {
        fprintf(stderr, "skipped: the system has no membarrier\n");
        return 77;
    }
    pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
    pthread_barrier_init(&two, NULL, 2);
    with_resting_threads(purge);
    with_resting_threads(work_on);
    with_resting_threads(look_at_all);
    visits_wait_longer_for_a_thread_that_comes_back_soon();
    with_rich_thread(visit_of_a_working_thread_takes_a_part);
    comes_back = true;
    with_rich_thread(exgen_purge);
    visits_leave_working_threads_alone();
    visits_come_before_looks_into_what_is_kept();
    what_ended_threads_left_is_reached_from_outside();
    return test_passed();
}
