/* profile.h - a workload profile in memory: what a program did to its heap, as a model.
 *
 * A profile is JSON text (docs/formats.md describes every field) made from a trace by
 * `malloc-tuner fit`.  It cuts the trace into windows; each window holds a multiset of
 * lives (what is allocated, how long it lives, which thread frees it) and, at their exact places,
 * the few lives that are too large to be moved about.  Time is counted in allocations:
 * the n-th allocation of the process happens at tick n, everything else between two.
 *
 * Guarantees of the reader: it takes its memory by mmap only, never crashes on hostile
 * text, and what it returns is consistent: every index is in range, the lives of a window
 * add up to its allocations, every allocating thread runs in that window.
 */
#ifndef RAND_MALLOC_PROFILE_H
#define RAND_MALLOC_PROFILE_H

#include "trace.h"

#include <stddef.h>
#include <stdint.h>

/* 1, in which fixed lives have no ranks, is read too, 2, in which kinds do not hold what
 * of their blocks was touched, and 3, which does not know when the process started and ended. */
#define PROFILE_VERSION 4

/* The level of profiles made of call sites, whose times are guesses; others are fitted. */
#define LEVEL_SITES "call sites"

/* Limits that keep every table small and every product inside 64 bits. */
#define PROFILE_MAX_BYTES   (256u << 20)
#define PROFILE_MAX_WINDOWS 65535u              /* fits the 16 bits of a due moment */
#define PROFILE_MAX_EVENTS  (UINT32_C(1) << 28) /* some seconds of generating */

/* One step of a life after its allocation. */
struct profile_step {
    uint64_t size;     /* new size of a realloc */
    uint64_t old_size; /* of the block until then */
    uint32_t thread;   /* the calling one */
    uint32_t touch;    /* of a realloc, as in struct trace_event */
    uint8_t is_free;   /* 1: the life ends here, size is 0 */
};

/* What a life is: everything but its times. */
struct profile_kind {
    uint64_t size;
    uint32_t thread;
    uint32_t first_step; /* in steps */
    uint32_t n_steps;    /* the last may be a free, none before it is */
    uint32_t touch;      /* of the allocation, as in struct trace_event */
    uint8_t op;          /* enum trace_op: malloc, calloc or aligned */
    uint8_t align_log2;
};

/* `count` lives of one kind whose steps happen at the same (coarse) times. */
struct profile_life {
    uint32_t kind;
    uint32_t count;
    uint32_t first_code; /* in codes; as many as the kind has steps */
};

/* One life at its exact place. */
struct profile_fixed {
    uint32_t offset; /* allocations of the window before it */
    uint32_t kind;
    uint32_t first_code; /* in codes: allocations since the step before, exactly; negated,
                          * a part of a window as in lives.  Behind each the step's rank,
                          * if the life has ranks: 1 and up among the steps of one moment,
                          * else 0 */
    uint8_t has_ranks;
};

struct profile_thread_event {
    uint32_t thread;
    uint8_t op; /* TRACE_THREAD_START or TRACE_THREAD_EXIT */
};

struct profile_window {
    uint64_t time_ns;       /* when it begins */
    uint64_t tick;          /* allocations before it */
    uint32_t n_events;      /* of the trace, thread events included; only paces the clock */
    uint32_t n_allocations; /* all of them */
    uint32_t first_life, n_lives;
    uint32_t first_fixed, n_fixed;                /* by offset, ascending */
    uint32_t first_thread_event, n_thread_events; /* happen before all else */
    uint32_t lifo_permille; /* of the frees, how many end the youngest life first */
};

/* A life of a thread: it runs in the windows begin .. end - 1. */
struct profile_span {
    uint32_t begin;
    uint32_t end;
};

struct profile {
    struct profile_window *windows; /* n_windows + 1: the last is empty and marks the end */
    struct profile_kind *kinds;
    struct profile_step *steps;
    struct profile_life *lives;
    struct profile_fixed *fixed;
    struct profile_thread_event *thread_events;
    struct profile_span *spans; /* by thread, then begin */
    uint32_t *first_span;       /* [n_threads + 1] */
    int32_t *codes;             /* <= 0: bin of allocations since the step before, negated;
                                 * > 0: 1 + parts * (windows from the birth) + part of that window */
    uint32_t n_windows, n_kinds, n_steps, n_lives, n_fixed, n_thread_events, n_codes;
    uint32_t n_threads;
    uint32_t page_bytes;
    uint32_t version;   /* of the text: 1 .. PROFILE_VERSION */
    uint32_t bins_log2; /* age bins per octave, base-2 logarithm */
    uint32_t parts;     /* parts of a window in codes */
    uint64_t n_events;  /* that it makes, whatever the seed */
    uint64_t duration_ns;
    struct trace_life life;
    char level[32];       /* what kind of model it is, in words */
    const char *metadata; /* JSON object; NUL-terminated */
    void *memory;         /* of all the tables */
    size_t memory_bytes;
};

/* Reads n_bytes of JSON, behind which a NUL must be.  0, or a trace_status with a sentence in
 * message. */
int profile_parse(const char *text, size_t n_bytes, struct profile *profile, char *message,
                  size_t message_bytes);

void profile_release(struct profile *profile);

/* Finds when its threads run by their events; NULL, or what is wrong with these. */
const char *profile_find_spans(struct profile *profile);

int profile_runs_in(const struct profile *profile, uint32_t thread, uint32_t window);

/* The last life of the thread that begins at or before the window, else NULL.  Thread 0,
 * which always runs, has none. */
const struct profile_span *profile_span_at(const struct profile *profile, uint32_t thread,
                                           uint32_t window);

/* Lower end and width of an age bin: exact below 2 << bins_log2, then 1 << bins_log2
 * bins of equal width per octave, as in HDR histograms. */
static inline uint64_t profile_bin(const struct profile *profile, uint32_t bin, uint64_t *width) {
    uint32_t octave = bin >> profile->bins_log2;
    uint32_t shift = octave - (octave > 0);
    uint64_t first = (uint64_t)(octave > 0) << profile->bins_log2; /* bin of its octave */
    *width = UINT64_C(1) << shift;
    return (first | (bin & ((1u << profile->bins_log2) - 1))) << shift;
}

#endif
