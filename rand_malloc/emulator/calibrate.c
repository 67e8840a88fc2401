/* calibrate.c - measures what instructions, page faults and memory system calls cost here.
 *
 * ns per instruction: the time of a replay of a synthetic workload, less that of its page
 * faults, divided by the instructions an instrument counts for it.  As in programs, most of its
 * blocks live briefly, in memory that the processor has at hand; a few live long, in a heap of
 * some MiB outside of its small caches.  Where all did, most of the time would be cache misses,
 * an instruction several times as dear as those of programs, and faults as much too cheap.
 * ns per fault: first touches of a fresh mapping, including the kernel's zeroing.  ns per page: one
 * first touch of each huge page, where the machine gives them, shared among its pages.  ns per
 * system call: pairs on small untouched ranges.
 *
 * All are measured in turn, ROUNDS times, pinned to one processor, on memory that was used
 * before (warm.h).  Prices are ratios within a round, so that what a busy machine does to all
 * of a round cancels: c_fault = ns_per_fault / ns_per_instruction; c_page likewise; c_syscall
 * with the median over the classes.  Each is reported as the median of the rounds with its interval
 * from order statistics: with 21 rounds the 6th to the 16th value hold the median with
 * probability 97.3 % (binomial, 1 - 2 * P(X <= 5) for n = 21, p = 1/2).
 */
#include "calibrate.h"
#include "clock.h"
#include "instruments/instrument.h"
#include "json.h"
#include "message.h"
#include "warm.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS          21
#define RANK            5 /* of the interval's ends among the rounds, from either side, from 0 */
#define PAIRS           500u
#define FAULT_PAGES     2048u
#define HUGE_BYTES      (UINT64_C(2) << 20)
#define HUGE_PAGES      8u
#define WORKLOAD_EVENTS 400000u
#define WORKLOAD_SLOTS  50000u /* of blocks that live long; in front of them those of brief ones */
#define BRIEF_SLOTS     200u
#define BRIEF_PERCENT   95u                   /* of the events */
#define WARM_BYTES      (UINT64_C(256) << 20) /* several times what a round holds at once */

/* ns of each in one round */
struct round {
    double instruction, fault, page, call[SYSCALL_CLASSES];
};

/* Median of the rounds, and its interval. */
struct price {
    double middle, low, high;
};

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n_values) {
    qsort(values, n_values, sizeof *values, compare);
    return n_values % 2 == 1 ? values[n_values / 2]
                             : (values[n_values / 2 - 1] + values[n_values / 2]) / 2;
}

static double now_ns(void) {
    return (double)real_clock_ns(CLOCK_THREAD_CPUTIME_ID); /* not what others do meanwhile */
}

static char *map_pages(size_t n_pages) {
    char *pages = mmap(NULL, n_pages * PAGE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    madvise(pages, n_pages * PAGE_BYTES, MADV_NOHUGEPAGE);
    return pages;
}

/* Each of these returns ns per event of one repeat, or 0 if it could not be done. */
static double time_fault(void) {
    volatile char *pages = map_pages(FAULT_PAGES);
    if (pages == NULL)
        return 0;
    double begin = now_ns();
    for (size_t page = 0; page < FAULT_PAGES; page++)
        pages[page * PAGE_BYTES] = 1;
    double ns = (now_ns() - begin) / FAULT_PAGES;
    munmap((void *)(uintptr_t)pages, (size_t)FAULT_PAGES * PAGE_BYTES);
    return ns;
}

static bool is_resident(char *page) {
    unsigned char state = 0;
    return mincore(page, PAGE_BYTES, &state) == 0 && (state & 1) != 0;
}

/* Of one page of a huge one; 0 where the kernel does not give huge pages. */
static double time_page(void) {
    size_t bytes = (HUGE_PAGES + 1) * HUGE_BYTES;
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return 0;
    char *first = pages + (0 - (uintptr_t)pages) % HUGE_BYTES;
    bool is_huge = madvise(pages, bytes, MADV_HUGEPAGE) == 0;
    double begin = now_ns();
    for (size_t page = 0; page < HUGE_PAGES; page++)
        ((volatile char *)first)[page * HUGE_BYTES] = 1;
    double ns = (now_ns() - begin) / ((double)HUGE_PAGES * HUGE_BYTES / PAGE_BYTES);
    for (size_t page = 1; page <= HUGE_PAGES; page++)
        is_huge = is_huge && is_resident(first + page * HUGE_BYTES - PAGE_BYTES);
    munmap(pages, bytes);
    return is_huge ? ns : 0;
}

static double time_brk(void) {
    double begin = now_ns();
    for (unsigned i = 0; i < PAIRS; i++) {
        if (sbrk(PAGE_BYTES) == (void *)-1)
            return 0;
        sbrk(-(intptr_t)PAGE_BYTES);
    }
    return (now_ns() - begin) / (2.0 * PAIRS);
}

static double time_mmap(bool wants_munmap) {
    static void *addresses[PAIRS];
    double begin = now_ns();
    for (unsigned i = 0; i < PAIRS; i++) /* alternating protection: no merging of mappings */
        addresses[i] = mmap(NULL, PAGE_BYTES, i % 2 ? PROT_READ : PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double middle = now_ns();
    for (unsigned i = 0; i < PAIRS; i++)
        munmap(addresses[i], PAGE_BYTES);
    double end = now_ns();
    return (wants_munmap ? end - middle : middle - begin) / PAIRS;
}

static double time_mmap_only(void) {
    return time_mmap(false);
}

static double time_munmap(void) {
    return time_mmap(true);
}

static double time_madvise(void) {
    char *pages = map_pages(16);
    double begin = now_ns();
    for (unsigned i = 0; pages != NULL && i < PAIRS; i++)
        madvise(pages, 16 * PAGE_BYTES, MADV_DONTNEED);
    double ns = (now_ns() - begin) / PAIRS;
    munmap(pages, 16 * PAGE_BYTES);
    return ns;
}

static double time_mremap(void) {
    char *pages = map_pages(32);
    double begin = now_ns();
    for (unsigned i = 0; pages != NULL && i < PAIRS; i++) {
        if (mremap(pages, 32 * PAGE_BYTES, 16 * PAGE_BYTES, 0) == MAP_FAILED ||
            mremap(pages, 16 * PAGE_BYTES, 32 * PAGE_BYTES, 0) == MAP_FAILED)
            return 0;
    }
    double ns = (now_ns() - begin) / (2.0 * PAIRS);
    munmap(pages, 32 * PAGE_BYTES);
    return ns;
}

static double time_mprotect(void) {
    char *pages = map_pages(32);
    double begin = now_ns();
    for (unsigned i = 0; pages != NULL && i < PAIRS; i++) {
        mprotect(pages, 16 * PAGE_BYTES, PROT_NONE);
        mprotect(pages, 16 * PAGE_BYTES, PROT_READ | PROT_WRITE);
    }
    double ns = (now_ns() - begin) / (2.0 * PAIRS);
    munmap(pages, 32 * PAGE_BYTES);
    return ns;
}

static uint64_t draw(uint64_t *state, uint64_t limit) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % limit;
}

static uint32_t draw_slot(uint64_t *state) {
    bool is_brief = draw(state, 100) < BRIEF_PERCENT;
    return (uint32_t)(is_brief ? draw(state, BRIEF_SLOTS)
                               : BRIEF_SLOTS + draw(state, WORKLOAD_SLOTS - BRIEF_SLOTS));
}

/* Blocks of 16 to 1024 bytes: nineteen of twenty live for some 200 events, most others to the end.
 */
static int load_typical(struct workload *workload) {
    struct trace_event *events = calloc(WORKLOAD_EVENTS, sizeof *events);
    static unsigned char is_live[WORKLOAD_SLOTS];
    uint64_t state = 1;
    struct trace_info info = {.version = TRACE_FORMAT_VERSION,
                              .n_threads = 1,
                              .n_slots = WORKLOAD_SLOTS,
                              .page_bytes = PAGE_BYTES,
                              .n_events = WORKLOAD_EVENTS,
                              .is_complete = 1};
    if (events == NULL)
        return complain(EXIT_REPLAY, "calibrate", "not enough memory");
    for (uint32_t i = 0; i < WORKLOAD_EVENTS; i++) {
        uint32_t slot = draw_slot(&state);
        events[i].slot = slot;
        events[i].op = is_live[slot] ? TRACE_FREE : TRACE_MALLOC;
        events[i].size = is_live[slot] ? 0 : 16 + draw(&state, 1009);
        is_live[slot] ^= 1;
    }
    int code = workload_from_events(events, &info, workload);
    free(events);
    return code;
}

/* Native time of the workload without its faults, in ns of processor time; 0 on failure. */
static double time_replay(const struct options *options, const struct workload *workload,
                          double ns_per_fault) {
    struct run run = {.options = options, .workload = workload, .kind = RUN_TIME};
    double ns = 0;
    if (run_open(&run) == EXIT_OK && run_execute(&run, NULL) == EXIT_OK &&
        run_verdict(&run) == EXIT_OK)
        ns = (double)run.outcome->cpu_ns - ns_per_fault * (double)run.outcome->faults;
    run_close(&run);
    return ns;
}

static const struct {
    const char *name;
    double (*measure)(void);
} CLASSES[SYSCALL_CLASSES] = {
    {"brk", time_brk},         {"mmap", time_mmap_only}, {"munmap", time_munmap},
    {"madvise", time_madvise}, {"mremap", time_mremap},  {"mprotect", time_mprotect},
};

static void pin_self(const struct options *options) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)run_cpu(options), &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* The replay stands between two readings of faults, which drift with the machine. */
static bool measure_round(const struct options *options, const struct workload *workload,
                          uint64_t n_instructions, struct round *round) {
    double before = time_fault();
    round->page = time_page();
    round->instruction = time_replay(options, workload, before) / (double)n_instructions;
    round->fault = (before + time_fault()) / 2;
    bool is_good = round->instruction > 0 && round->fault > 0;
    for (int call = 0; call < SYSCALL_CLASSES; call++) {
        round->call[call] = CLASSES[call].measure();
        is_good = is_good && round->call[call] > 0;
    }
    return is_good;
}

/* All instructions, as the time that is compared with them is that of all. */
static int count_process(const struct options *options, const struct workload *workload,
                         struct counted *counted) {
    struct options whole = *options;
    whole.counts_process = true;
    return instrument_count(&whole, workload, counted);
}

static int measure_rounds(const struct options *options, struct round *rounds) {
    struct workload workload = {0};
    struct counted counted = {.instrument = NULL};
    int code = load_typical(&workload);
    if (code == EXIT_OK)
        code = count_process(options, &workload, &counted);
    memory_warm(WARM_BYTES);
    for (size_t i = 0; code == EXIT_OK && i < ROUNDS; i++)
        if (!measure_round(options, &workload, counted.instructions.process, &rounds[i]))
            code = complain(EXIT_REPLAY, "calibrate", "the replay could not be timed");
    workload_release(&workload);
    return code;
}

static double ns_of_fault(const struct round *round) {
    return round->fault;
}

static double ns_of_page(const struct round *round) {
    return round->page;
}

static double ns_of_instruction(const struct round *round) {
    return round->instruction;
}

static double ns_of_call(const struct round *round) {
    double sorted[SYSCALL_CLASSES];
    memcpy(sorted, round->call, sizeof sorted);
    return median(sorted, SYSCALL_CLASSES);
}

static double median_ns(const struct round *rounds, double (*ns)(const struct round *)) {
    double values[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++)
        values[i] = ns(&rounds[i]);
    return median(values, ROUNDS);
}

/* In instructions; 0 if a round could not measure it, as without huge pages. */
static struct price price_of(const struct round *rounds, double (*ns)(const struct round *)) {
    double values[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++)
        values[i] = ns(&rounds[i]) / rounds[i].instruction;
    double middle = median(values, ROUNDS); /* sorts them */
    if (!(values[0] > 0))
        return (struct price){0, 0, 0};
    return (struct price){middle, values[RANK], values[ROUNDS - 1 - RANK]};
}

static void print_price(struct json *json, const char *name, const char *interval,
                        struct price price) {
    json_number(json, name, price.middle);
    json_open_list(json, interval);
    json_number(json, NULL, price.low);
    json_number(json, NULL, price.high);
    json_close_list(json);
}

static void print_calls(struct json *json, const struct round *rounds) {
    json_open(json, "ns_per_syscall");
    for (int call = 0; call < SYSCALL_CLASSES; call++) {
        double values[ROUNDS];
        for (size_t i = 0; i < ROUNDS; i++)
            values[i] = rounds[i].call[call];
        json_number(json, CLASSES[call].name, median(values, ROUNDS));
    }
    json_close(json);
}

int calibrate(const struct options *options) {
    static struct round rounds[ROUNDS];
    int code = run_check_cpu(options);
    if (code != EXIT_OK)
        return code;
    pin_self(options);
    code = measure_rounds(options, rounds);
    if (code != EXIT_OK)
        return code;
    struct json json = json_to(STDOUT_FILENO);
    json_open(&json, NULL);
    json_integer(&json, "rounds", ROUNDS);
    json_number(&json, "ns_per_instruction", median_ns(rounds, ns_of_instruction));
    json_number(&json, "ns_per_fault", median_ns(rounds, ns_of_fault));
    json_number(&json, "ns_per_page", median_ns(rounds, ns_of_page));
    print_calls(&json, rounds);
    print_price(&json, "c_fault", "c_fault_interval", price_of(rounds, ns_of_fault));
    print_price(&json, "c_page", "c_page_interval", price_of(rounds, ns_of_page));
    print_price(&json, "c_syscall", "c_syscall_interval", price_of(rounds, ns_of_call));
    json_close(&json);
    return finish_output(&json);
}
