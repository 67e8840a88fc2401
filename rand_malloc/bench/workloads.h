/* workloads.h - the list of workloads. */
#ifndef RAND_MALLOC_BENCH_WORKLOADS_H
#define RAND_MALLOC_BENCH_WORKLOADS_H

#include "bench.h"

extern const struct workload WORKLOADS[]; /* ends with a NULL name */

/* Blocks that stay with their thread: local.c */
void run_sizes(struct worker *worker);
void run_scalability(struct worker *worker);
void run_cache_thrash(struct worker *worker);
void prepare_cache_scratch(struct bench *bench);
void run_cache_scratch(struct worker *worker);
void fill_ring(struct worker *worker);
void run_ring(struct worker *worker);

/* Ranges of sizes, growth, alignment, zeros: ranges.c */
void run_pairs(struct worker *worker);
void run_batches(struct worker *worker);
void fill_range(struct worker *worker);
void run_range(struct worker *worker);
void run_grow_step(struct worker *worker);
void run_grow_half(struct worker *worker);
void run_aligned(struct worker *worker);
void run_zeroed(struct worker *worker);

/* Blocks that wander between threads: wander.c */
void fill_larson(struct worker *worker);
void run_larson(struct worker *worker);
void prepare_xmalloc(struct bench *bench);
void run_xmalloc(struct worker *worker);
void run_thread_churn(struct worker *worker);
void prepare_churn(struct bench *bench);
void fill_churn(struct worker *worker);
void run_churn(struct worker *worker);

/* One thread and no clock: alone.c */
void measure_overhead(struct bench *bench);
void measure_memory(struct bench *bench);

#endif
