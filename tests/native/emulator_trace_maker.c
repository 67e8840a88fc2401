/* emulator_trace_maker.c - writes a synthetic trace for the emulator's tests.
 *
 * Usage: emulator_trace_maker FILE KIND THREADS OPERATIONS SEED
 *   mixed   malloc, calloc, aligned, realloc and free of 1 B to 200 KiB; with several
 *           threads a quarter of the frees are made by another thread than the owner;
 *           every other thread exits and later starts again
 *   large   few blocks of 1 to 8 MiB, half calloc, grown by realloc: all `rep` strings
 *   hungry  one block of 2^46 bytes: no allocator can give it
 * Deterministic: the same arguments give the same file.
 */
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 64u
#define BLOCKS_PER_THREAD 512u
#define MAX_BLOCKS (MAX_THREADS * BLOCKS_PER_THREAD)

/* A place that is empty or holds a live block. */
struct place {
    uint32_t slot;
    unsigned char is_live;
};

struct maker {
    struct trace_writer *writer;
    uint64_t random;
    uint64_t time_ns;
    uint32_t n_threads;
    uint32_t n_started;
    uint32_t n_slots;
    unsigned char is_running[MAX_THREADS];
    struct place places[MAX_BLOCKS];
    uint32_t freed[MAX_THREADS][MAX_BLOCKS]; /* slots that this thread may use again */
    uint32_t n_freed[MAX_THREADS];
};

static uint64_t draw(struct maker *maker, uint64_t limit) {
    maker->random = maker->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (maker->random >> 33) % limit;
}

static void emit(struct maker *maker, struct trace_event event) {
    maker->time_ns += 200 + draw(maker, 2000);
    event.time_ns = maker->time_ns;
    if (trace_write(maker->writer, &event, 1) != TRACE_OK) {
        fprintf(stderr, "emulator_trace_maker: %s\n", trace_writer_message(maker->writer));
        exit(1);
    }
}

/* Small sizes mostly; sometimes up to 200 KiB. */
static uint64_t draw_size(struct maker *maker) {
    uint64_t kind = draw(maker, 100);
    if (kind < 70)
        return draw(maker, 256);
    if (kind < 97)
        return draw(maker, 8192);
    return draw(maker, 200 * 1024);
}

static void emit_thread(struct maker *maker, uint32_t thread, uint8_t op) {
    emit(maker, (struct trace_event){
                    .thread = thread, .owner = thread, .op = op, .api = TRACE_API_THREAD});
}

static void emit_new_block(struct maker *maker, struct place *place, uint32_t thread) {
    uint64_t kind = draw(maker, 10);
    uint32_t *n_freed = &maker->n_freed[thread];
    place->slot = *n_freed > 0 ? maker->freed[thread][--*n_freed] : maker->n_slots++;
    place->is_live = 1;
    struct trace_event event = {.slot = place->slot,
                                .thread = thread,
                                .owner = thread,
                                .size = draw_size(maker),
                                .op = TRACE_MALLOC,
                                .api = TRACE_API_MALLOC};
    if (kind == 0) {
        event.op = TRACE_CALLOC;
        event.api = TRACE_API_CALLOC;
    } else if (kind == 1) {
        event.op = TRACE_ALIGNED;
        event.api = TRACE_API_POSIX_MEMALIGN;
        event.align_log2 = (uint8_t)(4 + draw(maker, 9));
    }
    emit(maker, event);
}

/* One random step of a thread, mostly at a place of its own. */
static void step(struct maker *maker, uint32_t thread) {
    uint32_t home = draw(maker, 4) == 0 ? (uint32_t)draw(maker, maker->n_threads) : thread;
    struct place *place =
        &maker->places[home * BLOCKS_PER_THREAD + (uint32_t)draw(maker, BLOCKS_PER_THREAD)];
    struct trace_event event = {.slot = place->slot, .thread = thread};
    if (!place->is_live) {
        emit_new_block(maker, place, thread);
    } else if (draw(maker, 8) == 0) {
        event.op = TRACE_REALLOC;
        event.api = TRACE_API_REALLOC;
        event.size = 1 + draw_size(maker);
        emit(maker, event);
    } else {
        event.op = TRACE_FREE;
        event.api = TRACE_API_FREE;
        emit(maker, event);
        place->is_live = 0;
        maker->freed[thread][maker->n_freed[thread]++] = place->slot;
    }
}

/* Every other thread exits after 30 % of the steps and is started again after 60 %. */
static void make_mixed(struct maker *maker, uint64_t n_operations) {
    maker->n_started = maker->is_running[0] = 1;
    for (uint64_t i = 0; i < n_operations; i++) {
        /* bursts: a thread does a few steps before another one does */
        uint32_t thread = (uint32_t)((i / 7 + draw(maker, 2)) % maker->n_threads);
        int is_gap = i * 10 / n_operations >= 3 && i * 10 / n_operations < 6;
        if (thread > maker->n_started)
            continue;
        if (maker->is_running[thread] && is_gap && thread % 2 == 1) {
            emit_thread(maker, thread, TRACE_THREAD_EXIT);
            maker->is_running[thread] = 0;
        }
        if (!maker->is_running[thread]) {
            if (is_gap)
                continue;
            emit_thread(maker, thread, TRACE_THREAD_START);
            maker->is_running[thread] = 1;
            maker->n_started += thread == maker->n_started;
        }
        step(maker, thread);
    }
}

static void make_large(struct maker *maker, uint64_t n_operations) {
    for (uint64_t i = 0; i < n_operations; i++) {
        uint32_t slot = (uint32_t)(i % 4);
        struct trace_event event = {.slot = slot, .size = 1024 * 1024};
        event.op = i % 2 == 0 ? TRACE_CALLOC : TRACE_MALLOC;
        event.api = i % 2 == 0 ? TRACE_API_CALLOC : TRACE_API_MALLOC;
        emit(maker, event);
        for (int growth = 0; growth < 3; growth++) {
            event.op = TRACE_REALLOC;
            event.api = TRACE_API_REALLOC;
            event.size *= 2;
            emit(maker, event);
        }
        event.op = TRACE_FREE;
        event.api = TRACE_API_FREE;
        event.size = 0;
        emit(maker, event);
    }
}

static void make_hungry(struct maker *maker) {
    emit(maker, (struct trace_event){.size = 16});
    emit(maker, (struct trace_event){.slot = 1, .size = UINT64_C(1) << 46});
}

int main(int argc, char **argv) {
    static struct maker maker;
    char message[256];
    if (argc != 6) {
        fprintf(stderr, "usage: emulator_trace_maker FILE KIND THREADS OPERATIONS SEED\n");
        return 2;
    }
    maker.n_threads = (uint32_t)strtoul(argv[3], NULL, 10);
    maker.random = strtoull(argv[5], NULL, 10);
    uint64_t n_operations = strtoull(argv[4], NULL, 10);
    if (maker.n_threads < 1 || maker.n_threads > MAX_THREADS)
        return 2;
    if (trace_create(argv[1], "{}", 4096, &maker.writer, message, sizeof message) != TRACE_OK) {
        fprintf(stderr, "emulator_trace_maker: %s\n", message);
        return 1;
    }
    if (strcmp(argv[2], "mixed") == 0)
        make_mixed(&maker, n_operations);
    else if (strcmp(argv[2], "large") == 0)
        make_large(&maker, n_operations);
    else
        make_hungry(&maker);
    return trace_finish(maker.writer) == TRACE_OK ? 0 : 1;
}
