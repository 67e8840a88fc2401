/* memory_cases.c - programs that are hard on an allocator's memory, for benchmarks/allocators.py.
 *
 *   memory_cases MODE    MODE is a name of `modes` below; `list` prints the names
 *
 * Prints a number of bytes, of which fewer are better.  The calls are the same in every run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    KIB = 1024,
    MIB = 1024 * 1024
};

/* ---- what is in memory ---- */

/* A line of /proc/self/status, in bytes; without malloc. */
static size_t status_bytes(const char *name) {
    char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (n < 0)
        abort();
    close(fd);
    text[n] = 0;
    const char *line = strstr(text, name);
    return line != NULL ? strtoul(line + strlen(name), NULL, 10) * KIB : 0;
}

static size_t resident_bytes(void) {
    return status_bytes("RssAnon:");
}

static void rest(unsigned ms) {
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* ---- blocks ---- */

static uint64_t random_state = 0x9e3779b97f4a7c15u;

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016. */
static size_t random_below(size_t n) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * 0x2545f4914f6cdd1du >> 32) % n;
}

/* The smaller of two: short blocks are more frequent than long ones. */
static size_t random_between(size_t least, size_t most) {
    size_t one = random_below(most - least), other = random_below(most - least);
    return least + (one < other ? one : other);
}

struct block {
    void *address;
    size_t bytes;
};

static _Thread_local size_t live_bytes;

static struct block *own_blocks(size_t n) {
    void *start = mmap(NULL, n * sizeof(struct block), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (start == MAP_FAILED)
        abort();
    return start;
}

static void take(struct block *block, size_t bytes) {
    *block = (struct block){malloc(bytes), bytes};
    if (block->address == NULL)
        abort();
    memset(block->address, 1, bytes);
    live_bytes += bytes;
}

static void drop(struct block *block) {
    free(block->address);
    live_bytes -= block->bytes;
    *block = (struct block){NULL, 0};
}

/* ---- one thread ---- */

/* 128 MiB of blocks, of which nine in ten are freed; then as much again of longer ones. */
static size_t refill(void) {
    enum {
        MOST = 1000000
    };
    struct block *blocks = own_blocks(MOST);
    size_t n = 0;
    for (; live_bytes < 128 * MIB; n++)
        take(&blocks[n], random_between(32, 1024));
    for (size_t i = 0; i < n; i++)
        if (random_below(10) != 0)
            drop(&blocks[i]);
    for (; live_bytes < 128 * MIB; n++)
        take(&blocks[n], random_between(1024, 8192));
    return resident_bytes() - MOST * sizeof(struct block);
}

/* A server with 64 MiB in blocks: one leaves, another comes, and lengths go from short to long and
 * back.  One in sixteen stays for long.  The mean over the time of that. */
static size_t drift(void) {
    enum {
        MOST = 1000000,
        STEPS = 200,
        LIVE = 64 * MIB
    };
    struct block *blocks = own_blocks(MOST);
    size_t n = 0, sum = 0;
    for (size_t step = 0; step < STEPS; step++) {
        size_t phase = step % 100 < 50 ? step % 100 : 100 - step % 100;
        size_t least = 32 + phase * 16, replaced = 0;
        while (replaced < LIVE / 8) {
            while (live_bytes > LIVE) {
                size_t at = random_below(n);
                if (at % 16 == 0 && random_below(16) != 0)
                    continue;
                replaced += blocks[at].bytes;
                drop(&blocks[at]);
                blocks[at] = blocks[--n];
            }
            take(&blocks[n++], random_between(least, 8 * least));
        }
        sum += resident_bytes();
    }
    return sum / STEPS - MOST * sizeof(struct block);
}

/* ---- threads ---- */

static pthread_barrier_t barrier;

static pthread_t start(void *(*work)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * KIB);
    if (pthread_create(&thread, &attributes, work, NULL) != 0)
        abort();
    return thread;
}

enum {
    BURST = 20 * MIB,
    LEAST = 1000,
    MOST = 20000,
    N_RESTING = 16,
    N_ENDED = 1000
};

/* 20 MiB of blocks, of which every so many-th stays; 0: none does. */
static void burst(size_t keeps) {
    struct block *blocks = own_blocks(BURST / LEAST);
    size_t n = 0;
    for (size_t bytes = 0; bytes < BURST; bytes += blocks[n++].bytes)
        take(&blocks[n], LEAST + (n * 2654435761u >> 8) % (MOST - LEAST));
    for (size_t i = 0; i < n; i++)
        if (keeps == 0 || i % keeps != 0)
            drop(&blocks[i]);
    munmap(blocks, BURST / LEAST * sizeof *blocks);
}

static size_t kept_each;

static void *burst_and_rest(void *argument) {
    burst(kept_each);
    pthread_barrier_wait(&barrier);
    for (;;)
        pause();
    return argument;
}

static size_t after_bursts(size_t keeps) {
    kept_each = keeps;
    pthread_barrier_init(&barrier, NULL, N_RESTING + 1);
    for (size_t i = 0; i < N_RESTING; i++)
        start(burst_and_rest);
    pthread_barrier_wait(&barrier);
    rest(2000);
    return resident_bytes();
}

/* All threads sleep after a burst of which nothing stays, or one block in a hundred. */
static size_t resting(void) {
    return after_bursts(0);
}

static size_t resting_with_blocks(void) {
    return after_bursts(100);
}

static void *leave_a_block(void *argument) {
    char *volatile left = malloc(100);
    for (size_t i = 0; i < 100; i++) {
        char *volatile block = malloc(16 + 40 * i);
        block[0] = left[0] = 1;
        free(block);
    }
    pthread_barrier_wait(&barrier);
    return argument;
}

/* Threads that are there at the same time and end, each of which leaves a block. */
static void leave_blocks(void) {
    static pthread_t threads[N_ENDED];
    pthread_barrier_init(&barrier, NULL, N_ENDED + 1);
    for (size_t i = 0; i < N_ENDED; i++)
        threads[i] = start(leave_a_block);
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < N_ENDED; i++)
        pthread_join(threads[i], NULL);
    rest(200);
}

static size_t ended(void) {
    leave_blocks();
    return resident_bytes();
}

static size_t ended_mapped(void) {
    size_t before = status_bytes("VmSize:");
    leave_blocks();
    return status_bytes("VmSize:") - before;
}

/* ---- limits ---- */

/* Bytes of a limit of 200 MB that no block of 1000 bytes gets. */
static size_t lost_under(int resource) {
    struct rlimit limit = {200000000, 200000000};
    size_t bytes = 0;
    if (setrlimit(resource, &limit) != 0)
        abort();
    while (malloc(1000) != NULL)
        bytes += 1000;
    return limit.rlim_cur - bytes;
}

static size_t limited(void) {
    return lost_under(RLIMIT_AS);
}

static size_t limited_data(void) {
    return lost_under(RLIMIT_DATA);
}

/* All memory is to stay resident: what then is, and what counts as such. */
static void lock_all(void) {
    char *volatile block = malloc(1);
    free(block);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        exit(3);
}

static size_t locked(void) {
    lock_all();
    return status_bytes("VmRSS:");
}

static size_t locked_counted(void) {
    lock_all();
    return status_bytes("VmLck:");
}

/* ---- the program ---- */

static const struct mode {
    const char *name;
    size_t (*run)(void);
} modes[] = {
    {"refill", refill},   {"drift", drift},
    {"resting", resting}, {"resting-with-blocks", resting_with_blocks},
    {"ended", ended},     {"ended-mapped", ended_mapped},
    {"limited", limited}, {"limited-data", limited_data},
    {"locked", locked},   {"locked-counted", locked_counted},
};

int main(int argc, char **argv) {
    const char *wanted = argc == 2 ? argv[1] : "";
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(wanted, "list") == 0) {
            puts(modes[i].name);
        } else if (strcmp(wanted, modes[i].name) == 0) {
            printf("%zu\n", modes[i].run());
            return 0;
        }
    }
    return strcmp(wanted, "list") == 0 ? 0 : 2;
}
