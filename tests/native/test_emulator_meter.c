/* Readings of lanes that run freely: each is the resident memory of this moment, whoever reads at
 * the same time. */
#include "check.h"
#include "meter.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    N_LANES = 4,
    N_SAMPLES = 3000,
    MIB = 1 << 20,
    FREED_BYTES = 4 * MIB,
};

static struct plan plan = {.n_samples = 1}; /* so few that LazyFree is read each time */
static struct outcome outcome;
static struct sample samples[(size_t)N_LANES * N_SAMPLES];
static struct replay replay = {.plan = &plan, .outcome = &outcome, .samples = samples};

static void *read_often(void *first) {
    for (uint64_t i = 0; i < N_SAMPLES; i++)
        meter_sample(&replay, *(const uint64_t *)first + i);
    return NULL;
}

/* Freed pages that the kernel leaves where they are. */
static void free_lazily(void) {
    char *pages =
        mmap(NULL, FREED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    memset(pages, 1, FREED_BYTES);
    CHECK(madvise(pages, FREED_BYTES, MADV_FREE) == 0);
}

int main(void) {
    pthread_t threads[N_LANES];
    uint64_t first[N_LANES];
    memset(samples, 0, sizeof samples);
    free_lazily();
    meter_open(&replay);
    atomic_store(&outcome.lazy_seen, 1);
    meter_sample(&replay, 0);
    CHECK(samples[0].lazy_bytes >= FREED_BYTES / 2);
    int64_t least = (int64_t)samples[0].anonymous_bytes;
    for (uint64_t lane = 0; lane < N_LANES; lane++) {
        first[lane] = lane * N_SAMPLES;
        CHECK(pthread_create(&threads[lane], NULL, read_often, &first[lane]) == 0);
    }
    for (uint64_t lane = 0; lane < N_LANES; lane++)
        CHECK(pthread_join(threads[lane], NULL) == 0);
    for (uint64_t i = 0; i < (uint64_t)N_LANES * N_SAMPLES; i++) {
        int64_t bytes = (int64_t)samples[i].anonymous_bytes;
        CHECK(bytes >= least - MIB && bytes <= least + INT64_C(8) * MIB);
        CHECK(samples[i].lazy_bytes == samples[0].lazy_bytes);
    }
    return verdict();
}
