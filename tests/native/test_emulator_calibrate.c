/* What calibration computes from a clock that stands still but for the calls that are timed.
 *
 * The linker sends the clock, system calls and the replay to the fakes below (--wrap). */
#include "calibrate.c" /* NOLINT(bugprone-suspicious-include): its parts are static */

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int n_failed;
static uint64_t fake_ns;
static uint64_t step_ns; /* what each reading of the clock adds */

static void require_near(double value, double expected, const char *what) {
    if (fabs(value - expected) <= 1e-9 * expected)
        return;
    n_failed++;
    fprintf(stderr, "%s: %g, expected %g\n", what, value, expected);
}

enum {
    BRK_NS = 100,
    MMAP_NS = 300,
    MUNMAP_NS = 700,
    MADVISE_NS = 1100,
    MREMAP_NS = 1300,
    MPROTECT_NS = 1700
};

uint64_t __wrap_real_clock_ns(int id);
uint64_t __wrap_real_clock_ns(int id) {
    (void)id;
    return fake_ns += step_ns;
}

void *__real_sbrk(intptr_t increment);
void *__wrap_sbrk(intptr_t increment);
void *__wrap_sbrk(intptr_t increment) {
    fake_ns += BRK_NS;
    return __real_sbrk(increment);
}

void *__real_mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset) {
    fake_ns += MMAP_NS;
    return __real_mmap(start, bytes, protection, flags, file, offset);
}

int __real_munmap(void *start, size_t bytes);
int __wrap_munmap(void *start, size_t bytes);
int __wrap_munmap(void *start, size_t bytes) {
    fake_ns += MUNMAP_NS;
    return __real_munmap(start, bytes);
}

int __real_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice) {
    fake_ns += MADVISE_NS;
    return __real_madvise(start, bytes, advice);
}

void *__real_mremap(void *start, size_t old_bytes, size_t new_bytes, int flags, ...);
void *__wrap_mremap(void *start, size_t old_bytes, size_t new_bytes, int flags, ...);
void *__wrap_mremap(void *start, size_t old_bytes, size_t new_bytes, int flags, ...) {
    fake_ns += MREMAP_NS;
    return __real_mremap(start, old_bytes, new_bytes, flags);
}

int __real_mprotect(void *start, size_t bytes, int protection);
int __wrap_mprotect(void *start, size_t bytes, int protection);
int __wrap_mprotect(void *start, size_t bytes, int protection) {
    fake_ns += MPROTECT_NS;
    return __real_mprotect(start, bytes, protection);
}

/* A price is that of one call, however many a measurement makes. */
static void check_calls(void) {
    static const double EXPECTED[SYSCALL_CLASSES] = {BRK_NS,     MMAP_NS,   MUNMAP_NS,
                                                     MADVISE_NS, MREMAP_NS, MPROTECT_NS};
    for (int call = 0; call < SYSCALL_CLASSES; call++)
        require_near(CLASSES[call].measure(), EXPECTED[call], CLASSES[call].name);
}

/* Nothing but the clock's own steps passes: all pages that were touched share one. */
static void check_faults(void) {
    step_ns = (uint64_t)FAULT_PAGES * 100;
    require_near(time_fault(), 100, "a fault");
    step_ns = 0;
}

static struct outcome replayed = {.cpu_ns = 1000000, .faults = 1000};

int __wrap_run_open(struct run *run);
int __wrap_run_open(struct run *run) {
    run->outcome = &replayed;
    return EXIT_OK;
}

/* The machine becomes slower: a fault costs 100 ns before the replay, 300 after it. */
int __wrap_run_execute(struct run *run, const struct command *prefix);
int __wrap_run_execute(struct run *run, const struct command *prefix) {
    (void)run;
    (void)prefix;
    step_ns = (uint64_t)FAULT_PAGES * 300;
    return EXIT_OK;
}

int __wrap_run_verdict(const struct run *run);
int __wrap_run_verdict(const struct run *run) {
    (void)run;
    return EXIT_OK;
}

void __wrap_run_close(struct run *run);
void __wrap_run_close(struct run *run) {
    (void)run;
}

static void check_round(void) {
    static const struct options options;
    static const struct workload workload;
    struct round round;
    step_ns = (uint64_t)FAULT_PAGES * 100;
    (void)measure_round(&options, &workload, 900000, &round);
    step_ns = 0;
    require_near(round.fault, 200, "a fault is the mean of before and after");
    require_near(round.instruction, 1, "an instruction, without the replay's faults");
}

/* Of rounds with 1, 2, ... 21 ns a fault the median is the 11th, the interval the 6th to 16th. */
static void check_prices(void) {
    struct round rounds[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        double n = (double)((i * 8) % ROUNDS + 1); /* in no order */
        rounds[i] = (struct round){.instruction = 0.5, .fault = n, .call = {7, 1, 4, 2, 6, 3}};
    }
    struct price fault = price_of(rounds, ns_of_fault);
    require_near(fault.middle, 22, "median of the prices of a fault");
    require_near(fault.low, 12, "low end");
    require_near(fault.high, 32, "high end");
    require_near(median_ns(rounds, ns_of_fault), 11, "median of ns a fault");
    require_near(price_of(rounds, ns_of_call).middle, 7, "median of the classes of calls");
    require_near(price_of(rounds, ns_of_page).middle + 1, 1, "no price without huge pages");
}

static bool counted_process;

int __wrap_instrument_count(const struct options *options, const struct workload *workload,
                            struct counted *counted);
int __wrap_instrument_count(const struct options *options, const struct workload *workload,
                            struct counted *counted) {
    (void)workload;
    (void)counted;
    counted_process = options->counts_process;
    return EXIT_OK;
}

/* Whatever is to be counted else. */
static void check_count(void) {
    static const struct options options; /* --instructions allocator */
    static const struct workload workload;
    struct counted counted;
    (void)count_process(&options, &workload, &counted);
    require_near(counted_process, 1, "the instructions of the whole process are counted");
}

/* As in programs: 19 of 20 events are of few blocks that live briefly. */
static void check_slots(void) {
    uint64_t state = 1;
    double n_brief = 0, n_seen = 10000;
    for (int i = 0; i < (int)n_seen; i++) {
        uint32_t slot = draw_slot(&state);
        require_near(1.0 + (slot >= WORKLOAD_SLOTS), 1, "a slot within the workload");
        n_brief += slot < 200;
    }
    require_near(1.0 + (fabs(n_brief / n_seen - 0.95) > 0.01), 1, "share of brief lives");
}

int main(void) {
    check_calls();
    check_slots();
    check_faults();
    check_round();
    check_count();
    check_prices();
    if (n_failed == 0)
        puts("passed");
    return n_failed != 0;
}
