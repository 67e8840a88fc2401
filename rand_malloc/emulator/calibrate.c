/* calibrate.c - measures what instructions, page faults and memory system calls cost here.
 *
 * ns per instruction: the time of a replay of a synthetic workload, less that of its page
 * faults, divided by the instructions an instrument counts for it.  Its heap of a dozen MiB
 * lies outside of the processor's small caches, as the heaps of programs do; in them an
 * instruction costs half as much, and faults would seem twice as dear.  ns per fault: first
 * touches of a fresh mapping, including the kernel's zeroing.  ns per huge page: one first touch
 * of each, where the machine has them.  ns per system call: pairs on small untouched ranges.  Each
 * is the median of REPEATS repeats, pinned to one processor.
 *
 * c_fault = ns_per_fault / ns_per_instruction; c_page likewise, of a page that came with a huge
 * one; c_syscall with the median over the classes.
 */
#include "calibrate.h"
#include "clock.h"
#include "instruments/instrument.h"
#include "json.h"
#include "message.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define REPEATS         9
#define PAIRS           2000u
#define FAULT_PAGES     8192u
#define HUGE_BYTES      (UINT64_C(2) << 20)
#define HUGE_PAGES      16u
#define WORKLOAD_EVENTS 400000u
#define WORKLOAD_SLOTS  50000u

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

/* Of one page of a huge one; 0 where the kernel gives no huge pages. */
static double time_page(void) {
    size_t bytes = (HUGE_PAGES + 1) * HUGE_BYTES;
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return 0;
    volatile char *first = pages + (0 - (uintptr_t)pages) % HUGE_BYTES;
    double ns = 0;
    if (madvise(pages, bytes, MADV_HUGEPAGE) == 0) {
        double begin = now_ns();
        for (size_t page = 0; page < HUGE_PAGES; page++)
            first[page * HUGE_BYTES] = 1;
        ns = (now_ns() - begin) / ((double)HUGE_PAGES * HUGE_BYTES / PAGE_BYTES);
    }
    munmap(pages, bytes);
    return ns;
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

static double repeat(double (*measure)(void)) {
    double values[REPEATS];
    for (size_t i = 0; i < REPEATS; i++)
        values[i] = measure();
    return median(values, REPEATS);
}

static uint64_t draw(uint64_t *state, uint64_t limit) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % limit;
}

/* Blocks of 16 to 1024 bytes that live for about 50 000 events. */
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
        uint32_t slot = (uint32_t)draw(&state, WORKLOAD_SLOTS);
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

static int measure_instruction(const struct options *options, double ns_per_fault, double *ns) {
    struct workload workload = {0};
    struct counted counted = {.instrument = NULL};
    double values[REPEATS];
    int code = load_typical(&workload);
    if (code == EXIT_OK)
        code = instrument_count(options, &workload, &counted);
    for (size_t i = 0; code == EXIT_OK && i < REPEATS; i++) {
        values[i] = time_replay(options, &workload, ns_per_fault);
        if (!(values[i] > 0))
            code = complain(EXIT_REPLAY, "calibrate", "the replay could not be timed");
    }
    if (code == EXIT_OK)
        *ns = median(values, REPEATS) / (double)counted.instructions.process;
    workload_release(&workload);
    return code;
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

int calibrate(const struct options *options) {
    double per_instruction = 0, per_call[SYSCALL_CLASSES], sorted[SYSCALL_CLASSES];
    pin_self(options);
    double per_fault = repeat(time_fault), per_page = repeat(time_page);
    int code = measure_instruction(options, per_fault, &per_instruction);
    if (code != EXIT_OK)
        return code;
    for (int call = 0; call < SYSCALL_CLASSES; call++)
        per_call[call] = sorted[call] = repeat(CLASSES[call].measure);
    struct json json = json_begin();
    json_number(&json, "ns_per_instruction", per_instruction);
    json_number(&json, "ns_per_fault", per_fault);
    json_number(&json, "ns_per_page", per_page);
    json_open(&json, "ns_per_syscall");
    for (int call = 0; call < SYSCALL_CLASSES; call++)
        json_number(&json, CLASSES[call].name, per_call[call]);
    json_close(&json);
    json_number(&json, "c_fault", per_fault / per_instruction);
    json_number(&json, "c_page", per_page / per_instruction);
    json_number(&json, "c_syscall", median(sorted, SYSCALL_CLASSES) / per_instruction);
    json_end(&json);
    return EXIT_OK;
}
