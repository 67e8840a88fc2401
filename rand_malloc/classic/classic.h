/* classic.h - the workload of Langdon's rand_malloc, one event after the other.
 *
 * What his program does with its records (records.h): one tick after the other, the next
 * record's block is allocated, then all blocks are freed that are due, the earliest
 * scheduled first.  Ticks go on until the last block is due, but no further than a horizon;
 * what is due behind it is never freed.  Means are drawn as half of the mean of five
 * numbers of rand(), lifetime before size.
 *
 * Guarantees: the same records and seed give his program's figures, number by number, as
 * long as it runs to its end: it gives up where more than 20 blocks are due at one tick.
 * Limits: no threads, reallocs or alignment; memory is never touched by the original, so
 * the emulator touches none in this mode by default.
 *
 * Source: github.com/wblangdon/rand_malloc, rand_malloc.c 1.36 and its README; written anew.
 */
#ifndef RAND_MALLOC_CLASSIC_H
#define RAND_MALLOC_CLASSIC_H

#include "records.h"
#include "trace.h"

#define CLASSIC_HORIZON  10000000u /* ticks */
#define CLASSIC_WIDTH    20u       /* blocks due at one tick, above which the original gives up */
#define CLASSIC_TICK_NS  1000u     /* our clock; the original has none */
#define CLASSIC_MAX_SEED 2147483647u

/* What the original prints at its end, and how it names it. */
struct classic_figures {
    uint64_t n_steps;          /* ticks, and one */
    uint64_t max_due;          /* greatest number of blocks due at one tick: maxwidth */
    uint64_t last_random;      /* the number its generator gives next */
    uint64_t last_due;         /* tick at which the last block is due: last free at */
    uint64_t last_beyond;      /* tick of the last block due behind the horizon, 0: none */
    uint64_t allocated_bytes;  /* total allocated */
    uint64_t n_allocations;    /* mallocs */
    uint64_t n_frees;          /* frees */
    uint64_t peak_live_bytes;  /* Max_malloc */
    uint64_t final_live_bytes; /* still on heap */
};

struct classic;

/* NULL when memory is short.  The records must outlive it; seed up to CLASSIC_MAX_SEED. */
struct classic *classic_open(const struct classic_records *records, uint32_t seed);

/* The next event: TRACE_OK, TRACE_END or TRACE_ERROR_MEMORY; owner is left 0. */
int classic_next(struct classic *classic, struct trace_event *event);

/* Complete once classic_next said TRACE_END. */
void classic_get_figures(const struct classic *classic, struct classic_figures *figures);

void classic_close(struct classic *classic);

#endif
