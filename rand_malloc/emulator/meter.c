/* meter.c - reads statm, status, smaps_rollup and getrusage; see meter.h. */
#include "meter.h"
#include "clock.h"
#include "footprint.h"
#include "latency.h"
#include "rawsys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define LAZY_CHECKPOINTS      32u /* smaps_rollup walks all pages: only so often */
#define STACK_PREFAULT_BYTES  (256u * 1024)
#define MADVISE_POPULATE_READ 22   /* MADV_POPULATE_READ, Linux 5.14 */
#define STATM_BYTES           256u /* seven numbers */

static struct {
    int statm, rollup, status, refs; /* file descriptors */
    char text[64 * 1024];            /* of a proc file */
    atomic_bool is_read;             /* LazyFree, by a lane */
    void *page;                      /* unused but for locking it */
    bool has_watermark;              /* it could be reset */
    uint64_t wall_begin_ns, cpu_begin_ns, ticks_begin;
    uint64_t faults_begin, sleeps_begin, preemptions_begin;
    bool has_read; /* a traced sample has read statm, after so many faults and traced calls */
    uint64_t faults_then, n_traced_then, anonymous_bytes_then;
} meter;

static int open_proc(const char *path, int flags) {
    return (int)raw_syscall(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0, 0);
}

/* Reads a file from its start; the text is cut off at n_bytes - 1. */
static void read_into(int descriptor, char *text, size_t n_bytes) {
    long length = raw_syscall(SYS_pread64, descriptor, (long)text, (long)n_bytes - 1, 0, 0, 0);
    text[length > 0 ? length : 0] = '\0';
}

static void read_text(int descriptor) {
    read_into(descriptor, meter.text, sizeof meter.text);
}

static uint64_t parse_number(const char **at) {
    uint64_t value = 0;
    while (**at == ' ' || **at == '\t')
        (*at)++;
    while (**at >= '0' && **at <= '9')
        value = value * 10 + (uint64_t)(*(*at)++ - '0');
    return value;
}

/* The kernel notes lazily freed pages in batches of each processor, which smaps does not see:
 * it depends on what ran here before how many are left in one.  Locking a page empties them
 * (mlock_vma_pages_range in mm/mlock.c, Linux 5.18 and later). */
static void drain_lazy_batches(void) {
    raw_syscall3(SYS_mlock, (long)meter.page, PAGE_BYTES, 0);
    raw_syscall3(SYS_munlock, (long)meter.page, PAGE_BYTES, 0);
}

/* The kB value after a key in meter.text, in bytes; 0 if the key is absent. */
static uint64_t parse_kib(const char *key) {
    const char *at = strstr(meter.text, key);
    if (at == NULL)
        return 0;
    at += strlen(key);
    return parse_number(&at) * 1024;
}

struct resident {
    uint64_t bytes;
    uint64_t anonymous_bytes;
};

/* statm: size resident shared ..., in pages; anonymous = resident - shared. */
static struct resident read_statm(void) {
    char text[STATM_BYTES]; /* of its own: lanes that run freely read at once */
    read_into(meter.statm, text, sizeof text);
    const char *at = text;
    parse_number(&at);
    uint64_t resident = parse_number(&at);
    uint64_t shared = parse_number(&at);
    return (struct resident){resident * PAGE_BYTES, (resident - shared) * PAGE_BYTES};
}

static struct rusage usage_now(void) {
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    raw_syscall3(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0);
    return usage;
}

static uint64_t minor_faults(void) {
    return (uint64_t)usage_now().ru_minflt;
}

static uint64_t parse_hex(const char **at) {
    uint64_t value = 0;
    for (;; (*at)++) {
        char c = **at;
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uint64_t)(c - 'a' + 10);
        else
            return value;
    }
}

/* One line of maps: "start-end perms offset device inode path". */
static void prefault_line(const char *line) {
    uint64_t begin = parse_hex(&line);
    line++;
    uint64_t end = parse_hex(&line);
    bool is_readable = line[1] == 'r';
    for (int fields = 0; fields < 4; fields++) {
        line = strchr(line, ' ');
        if (line == NULL)
            return;
        line++;
    }
    if (parse_number(&line) != 0 && is_readable)
        raw_syscall3(SYS_madvise, (long)begin, (long)(end - begin), MADVISE_POPULATE_READ);
}

static void prefault_stack(void) {
    volatile char pages[STACK_PREFAULT_BYTES];
    for (size_t at = 0; at < sizeof pages; at += PAGE_BYTES)
        pages[at] = 0;
}

void meter_prefault(void) {
    int maps = open_proc("/proc/self/maps", O_RDONLY);
    long length = 0, got = 0;
    while (length + 1 < (long)sizeof meter.text &&
           (got = raw_syscall3(SYS_read, maps, (long)meter.text + length,
                               (long)sizeof meter.text - 1 - length)) > 0)
        length += got;
    raw_syscall3(SYS_close, maps, 0, 0);
    meter.text[length] = '\0';
    for (char *line = meter.text, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        prefault_line(line);
    }
    prefault_stack();
}

void meter_open(struct replay *replay) {
    meter.statm = open_proc("/proc/self/statm", O_RDONLY);
    meter.rollup = open_proc("/proc/self/smaps_rollup", O_RDONLY);
    meter.status = open_proc("/proc/self/status", O_RDONLY);
    meter.refs = open_proc("/proc/self/clear_refs", O_WRONLY);
    meter.page = map_populated(replay, PAGE_BYTES, "map a page to lock");
    if (meter.statm < 0)
        setup_fail(replay, "open /proc/self/statm", meter.statm);
    if (meter.status < 0)
        setup_fail(replay, "open /proc/self/status", meter.status);
}

void meter_begin_heap(struct replay *replay) {
    struct outcome *outcome = replay->outcome;
    read_text(meter.status);
    (void)read_statm(); /* once before: touches the code */
    uint64_t allocator_bytes = footprint_of_allocator(replay->harness_bytes);
    struct resident begin = read_statm();
    outcome->begin_anonymous_bytes = begin.anonymous_bytes;
    outcome->baseline_rss_bytes = begin.bytes - allocator_bytes;
    outcome->baseline_anonymous_bytes = begin.anonymous_bytes - allocator_bytes;
    meter.has_watermark = raw_syscall3(SYS_write, meter.refs, (long)"5", 1) == 1;
}

void meter_end_heap(struct replay *replay) {
    if (!meter.has_watermark)
        return;
    read_text(meter.status);
    replay->outcome->watermark_bytes = parse_kib("VmHWM:");
}

void meter_begin_time(void) {
    minor_faults();
    meter.cpu_begin_ns = real_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    meter.wall_begin_ns = real_clock_ns(CLOCK_MONOTONIC);
    meter.ticks_begin = latency_ticks();
    struct rusage usage = usage_now();
    meter.sleeps_begin = (uint64_t)usage.ru_nvcsw;
    meter.preemptions_begin = (uint64_t)usage.ru_nivcsw;
    meter.faults_begin = (uint64_t)usage.ru_minflt;
}

void meter_end_time(struct outcome *outcome) {
    struct rusage usage = usage_now();
    outcome->faults = (uint64_t)usage.ru_minflt - meter.faults_begin;
    outcome->sleeps = (uint64_t)usage.ru_nvcsw - meter.sleeps_begin;
    outcome->preemptions = (uint64_t)usage.ru_nivcsw - meter.preemptions_begin;
    outcome->ticks = latency_ticks() - meter.ticks_begin;
    outcome->wall_ns = real_clock_ns(CLOCK_MONOTONIC) - meter.wall_begin_ns;
    outcome->cpu_ns = real_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - meter.cpu_begin_ns;
}

/* Memory changes with a fault or in a call that the tracer sees: without either the last reading
 * holds, which takes three quarters of a sample's time. */
static uint64_t anonymous_bytes_after(const struct outcome *outcome, uint64_t faults) {
    uint64_t n_traced = atomic_load_explicit(&outcome->n_traced, memory_order_relaxed);
    if (outcome->orders.traced == 0) /* as where lanes run freely */
        return read_statm().anonymous_bytes;
    if (meter.has_read && faults == meter.faults_then && n_traced == meter.n_traced_then)
        return meter.anonymous_bytes_then;
    meter.anonymous_bytes_then = read_statm().anonymous_bytes;
    meter.has_read = true;
    meter.faults_then = faults;
    meter.n_traced_then = n_traced;
    return meter.anonymous_bytes_then;
}

/* LazyFree, for one lane after the other. */
static int64_t read_lazy_bytes(void) {
    while (atomic_exchange_explicit(&meter.is_read, true, memory_order_acquire))
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    drain_lazy_batches();
    read_text(meter.rollup);
    int64_t bytes = (int64_t)parse_kib("LazyFree:");
    atomic_store_explicit(&meter.is_read, false, memory_order_release);
    return bytes;
}

void meter_sample(struct replay *replay, uint64_t index) {
    struct sample *sample = &replay->samples[index];
    sample->faults = minor_faults() - meter.faults_begin;
    sample->anonymous_bytes = anonymous_bytes_after(replay->outcome, sample->faults);
    sample->lazy_bytes = 0;
    if (atomic_load_explicit(&replay->outcome->lazy_seen, memory_order_relaxed) == 0)
        return;
    uint64_t every = replay->plan->n_samples / LAZY_CHECKPOINTS + 1;
    bool is_last = index + 1 == replay->plan->n_samples;
    sample->lazy_bytes = -1;
    if ((index % every == 0 || is_last) && meter.rollup >= 0)
        sample->lazy_bytes = read_lazy_bytes();
}
