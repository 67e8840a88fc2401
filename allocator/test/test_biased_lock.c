/* test_biased_lock.c - the lock whose usual thread takes it by plain stores. */
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/biased_lock.h"
#include "system/os.h"
#include "test.h"

enum {
    N_USUAL = 400, /* in a row: more than it takes */
    N_THREADS = 6, /* more than there are places */
    N_TURNS = 30
};

static struct biased_lock lock;
static pthread_barrier_t barrier;
static bool is_refused; /* membarrier is, as by a sandbox */
static bool has_left;   /* the thread with the bias */
static unsigned n_inside, n_all;

bool __real_os_fence_threads(void);
bool __wrap_os_fence_threads(void);
bool __wrap_os_fence_threads(void) {
    return !is_refused && __real_os_fence_threads();
}

static void take_often(void) {
    for (int i = 0; i < N_USUAL; i++) {
        biased_lock_take(&lock);
        biased_lock_release(&lock);
    }
}

/* Call both at once, the second in a thread of its own. */
static void run_beside(void (*first)(void), void *(*second)(void *)) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, second, NULL) == 0);
    first();
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void meet(void) {
    pthread_barrier_wait(&barrier);
}

static void hold_by_bias(void) {
    take_often();
    EXPECT(lock.bias != NULL);
    biased_lock_take(&lock);
    EXPECT(lock.lock.word == 0 && lock.bias->is_inside);
    meet();
    meet();
    usleep(20000); /* for the other to wait */
    has_left = true;
    biased_lock_release(&lock);
    meet();
    EXPECT(lock.bias == NULL);
}

static void *try_and_take(void *argument) {
    meet();
    EXPECT(!biased_lock_try(&lock) && lock.bias != NULL);
    meet();
    biased_lock_take(&lock);
    EXPECT(has_left && lock.lock.word != 0);
    biased_lock_release(&lock);
    EXPECT(biased_lock_try(&lock));
    biased_lock_release(&lock);
    meet();
    return argument;
}

static void the_usual_thread_has_it_until_another_comes(void) {
    pthread_barrier_init(&barrier, NULL, 2);
    run_beside(hold_by_bias, try_and_take);
    pthread_barrier_destroy(&barrier);
}

static void enter_and_leave(unsigned i) {
    EXPECT(n_inside++ == 0);
    n_all++;
    if (i % 16 == 0)
        sched_yield();
    EXPECT(--n_inside == 0);
}

static void *take_in_turns(void *number) {
    for (unsigned turn = 0; turn < N_TURNS; turn++) {
        for (unsigned i = 0; i < N_USUAL; i++) {
            biased_lock_take(&lock);
            enter_and_leave(i);
            biased_lock_release(&lock);
        }
        usleep((useconds_t)(1000 * (((size_t)number + turn) % 4)));
    }
    return NULL;
}

static void never_two_hold_it(void) {
    pthread_t threads[N_THREADS];
    n_all = 0;
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, take_in_turns, (void *)i) == 0);
    for (size_t i = 0; i < N_THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(n_all == N_THREADS * N_TURNS * N_USUAL);
}

static uint32_t lock_word(void) {
    return __atomic_load_n(&lock.lock.word, __ATOMIC_RELAXED);
}

/* The other one waits for the lock. */
static void fork_while_held(void) {
    take_often();
    biased_lock_take_really(&lock);
    meet();
    while (lock_word() != 2)
        sched_yield();
    pid_t child = fork();
    biased_lock_release(&lock);
    take_often();
    if (child == 0)
        _exit(0);
    int status = 0;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void *take_meanwhile(void *argument) {
    meet();
    biased_lock_take(&lock);
    biased_lock_release(&lock);
    return argument;
}

static void a_child_goes_on(void) {
    pthread_barrier_init(&barrier, NULL, 2);
    run_beside(fork_while_held, take_meanwhile);
    pthread_barrier_destroy(&barrier);
}

static void get_bias_and_wait(void) {
    take_often();
    EXPECT(lock.bias != NULL);
    is_refused = true;
    meet();
    meet();
}

static void *end_bias_and_take(void *argument) {
    meet();
    take_often();
    EXPECT(lock.bias == NULL);
    meet();
    return argument;
}

/* The bias ends, and nobody gets it any more. */
static void it_needs_no_system_call(void) {
    lock = (struct biased_lock){0};
    pthread_barrier_init(&barrier, NULL, 2);
    run_beside(get_bias_and_wait, end_bias_and_take);
    never_two_hold_it();
    EXPECT(lock.bias == NULL);
}

int main(void) {
    os_init();
    the_usual_thread_has_it_until_another_comes();
    never_two_hold_it();
    a_child_goes_on();
    it_needs_no_system_call();
    return test_passed();
}
