/* crew.c - phases and threads; see crew.h.
 *
 * The main thread only sleeps and reads counters.  What it reads at the ends of the
 * counting phase is taken together with the clock, so a late wake-up lengthens the phase
 * and does not falsify the rate.
 */
#include "crew.h"

#include "meter.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static const double WARM_SHARE = 0.2; /* of the counting phase */
static const double TIME_SHARE = 0.5;
static const double MOST_SHARE = 20;        /* a phase that saw too little lasts up to so long, */
static const double LEAST_LIMIT_S = 1;      /* and at least so long before it ends without */
static const uint64_t LEAST_OPERATIONS = 4; /* of each worker, on average */

struct seat {
    struct worker *worker;
    pthread_barrier_t *start;
    pthread_t thread;
};

/* The state of the counters at one moment. */
struct moment {
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t operations;
};

static void *work(void *argument) {
    struct seat *seat = argument;
    const struct workload *workload = seat->worker->bench->settings->workload;
    if (workload->fill != NULL)
        workload->fill(seat->worker);
    (void)pthread_barrier_wait(seat->start);
    (void)pthread_barrier_wait(seat->start);
    workload->run(seat->worker);
    return NULL;
}

static uint64_t operations_of(const struct bench *bench) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < bench->settings->threads; i++)
        sum += atomic_load_explicit(&bench->workers[i].operations, memory_order_relaxed);
    return sum;
}

static uint64_t timed_of(const struct bench *bench) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < bench->settings->threads; i++)
        sum += atomic_load_explicit(&bench->workers[i].timed, memory_order_relaxed);
    return sum;
}

static uint64_t live_of(const struct bench *bench) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < bench->settings->threads; i++)
        sum += atomic_load_explicit(&bench->workers[i].live_bytes, memory_order_relaxed);
    return sum > 0 ? (uint64_t)sum : 0;
}

static struct moment now(const struct bench *bench) {
    struct moment moment = {meter_clock_ns(), meter_cpu_ns(), operations_of(bench)};
    return moment;
}

static void sleep_s(double seconds) {
    struct timespec rest = {(time_t)seconds, 0};
    rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        continue;
}

void curve_open(struct curve *curve, uint32_t room) {
    *curve = (struct curve){.room = room};
    if (room == 0)
        return;
    curve->time_ns = own_memory(room * sizeof(uint64_t));
    curve->live_bytes = own_memory(room * sizeof(uint64_t));
    curve->rss_bytes = own_memory(room * sizeof(uint64_t));
}

void curve_add(struct curve *curve, uint64_t time_ns, uint64_t live_bytes) {
    if (curve->n == curve->room)
        return;
    curve->time_ns[curve->n] = time_ns;
    curve->live_bytes[curve->n] = live_bytes;
    curve->rss_bytes[curve->n] = meter_rss_bytes();
    curve->n++;
}

static void sleep_and_sample(struct bench *bench, double seconds) {
    uint32_t n = bench->settings->samples;
    uint64_t start = meter_clock_ns();
    if (n == 0)
        sleep_s(seconds);
    for (uint32_t i = 0; i < n; i++) {
        sleep_s(seconds / n);
        curve_add(&bench->curve, meter_clock_ns() - start, live_of(bench));
    }
}

static void enter(struct bench *bench, enum phase phase) {
    atomic_store_explicit(&bench->phase, (int)phase, memory_order_relaxed);
}

/* On a busy machine, or where one operation takes long, a phase needs more time: until enough of
 * what `count` counts was done since `before`. */
static void wait_for_some(const struct bench *bench, uint64_t (*count)(const struct bench *),
                          uint64_t before) {
    const struct settings *settings = bench->settings;
    uint64_t enough = before + LEAST_OPERATIONS * settings->threads;
    double most_s = MOST_SHARE * settings->seconds;
    uint64_t limit_ns =
        meter_clock_ns() + (uint64_t)((most_s > LEAST_LIMIT_S ? most_s : LEAST_LIMIT_S) * 1e9);
    while (count(bench) < enough && meter_clock_ns() < limit_ns)
        sleep_s(settings->seconds / 4);
}

/* By the clock: warm up, count, time, stop. */
static struct moment lead_by_time(struct bench *bench, struct moment *end) {
    double seconds = bench->settings->seconds;
    sleep_s(seconds * WARM_SHARE);
    struct moment start = now(bench);
    enter(bench, PHASE_COUNT);
    sleep_and_sample(bench, seconds);
    wait_for_some(bench, operations_of, start.operations);
    *end = now(bench);
    enter(bench, PHASE_TIME);
    sleep_s(seconds * TIME_SHARE);
    wait_for_some(bench, timed_of, 0);
    enter(bench, PHASE_STOP);
    return start;
}

static void take_seats(struct bench *bench, struct seat *seats, pthread_barrier_t *start) {
    for (uint32_t i = 0; i < bench->settings->threads; i++) {
        seats[i] = (struct seat){.worker = &bench->workers[i], .start = start};
        if (pthread_create(&seats[i].thread, NULL, work, &seats[i]) != 0)
            fail("pthread_create", "no further thread can be started");
    }
}

static void add_timing(struct bench *bench) {
    for (uint32_t i = 0; i < bench->settings->threads; i++) {
        histogram_merge(&bench->timing.malloc, &bench->workers[i].timing->malloc);
        histogram_merge(&bench->timing.free, &bench->workers[i].timing->free);
        histogram_merge(&bench->timing.empty, &bench->workers[i].timing->empty);
    }
}

void crew_run(struct bench *bench) {
    const struct settings *settings = bench->settings;
    struct seat *seats = own_memory(settings->threads * sizeof *seats);
    pthread_barrier_t barrier;
    bool is_by_time = settings->operations == UINT64_MAX;
    struct moment start, end;
    if (settings->workload->prepare != NULL)
        settings->workload->prepare(bench);
    curve_open(&bench->curve, settings->samples);
    (void)pthread_barrier_init(&barrier, NULL, settings->threads + 1);
    take_seats(bench, seats, &barrier);
    uint64_t start_ticks = latency_ticks(), start_ns = meter_clock_ns();
    (void)pthread_barrier_wait(&barrier); /* all are ready; they begin after the next: */
    start = now(bench);
    (void)pthread_barrier_wait(&barrier);
    if (is_by_time)
        start = lead_by_time(bench, &end);
    for (uint32_t i = 0; i < settings->threads; i++)
        (void)pthread_join(seats[i].thread, NULL);
    if (!is_by_time)
        end = now(bench);
    bench->ticks_per_ns =
        (double)(latency_ticks() - start_ticks) / (double)(meter_clock_ns() - start_ns);
    (void)pthread_barrier_destroy(&barrier);
    add_timing(bench);
    bench->counted = (struct counted){end.operations - start.operations,
                                      end.wall_ns - start.wall_ns, end.cpu_ns - start.cpu_ns};
}
