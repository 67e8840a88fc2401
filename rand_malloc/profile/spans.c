/* spans.c - from when to when the threads of a profile run. */
#include "profile.h"

#include "memory.h"
#include "trace.h"

const struct profile_span *profile_span_at(const struct profile *profile, uint32_t thread,
                                           uint32_t window) {
    uint32_t low = profile->first_span[thread];
    uint32_t high = profile->first_span[thread + 1];
    const struct profile_span *found = NULL;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct profile_span *span = &profile->spans[middle];
        if (span->begin > window) {
            high = middle;
        } else {
            found = span;
            low = middle + 1;
        }
    }
    return found;
}

int profile_runs_in(const struct profile *profile, uint32_t thread, uint32_t window) {
    const struct profile_span *span = profile_span_at(profile, thread, window);
    return thread == 0 || (span != NULL && window < span->end);
}

/* Room for the lives of each thread: first_span from the number of its starts. */
static void count_spans(struct profile *profile) {
    uint32_t *count = profile->first_span + 1;
    for (uint32_t i = 0; i < profile->n_thread_events; i++)
        if (profile->thread_events[i].op == TRACE_THREAD_START)
            count[profile->thread_events[i].thread]++;
    for (uint32_t thread = 0; thread < profile->n_threads; thread++)
        profile->first_span[thread + 1] += profile->first_span[thread];
}

/* Applies one event; n_spans counts the lives of each thread so far. */
static const char *apply_thread_event(struct profile *profile, uint32_t *n_spans, uint32_t *n_lanes,
                                      const struct profile_thread_event *event, uint32_t window) {
    struct profile_span *next =
        &profile->spans[profile->first_span[event->thread] + n_spans[event->thread]];
    int runs = n_spans[event->thread] > 0 && next[-1].end == UINT32_MAX;
    if (event->op == TRACE_THREAD_START) {
        if (runs || event->thread > *n_lanes)
            return "a thread starts that runs, or before one with a lower number";
        *n_lanes += event->thread == *n_lanes;
        *next = (struct profile_span){.begin = window, .end = UINT32_MAX};
        n_spans[event->thread]++;
        return NULL;
    }
    if (!runs)
        return "a thread exits that does not run";
    next[-1].end = window;
    return NULL;
}

const char *profile_find_spans(struct profile *profile) {
    size_t bytes = ((size_t)profile->n_threads + 1) * sizeof(uint32_t);
    uint32_t *n_spans = memory_map(bytes);
    uint32_t n_lanes = 1;
    const char *why = n_spans == NULL ? "no memory for its threads" : NULL;
    count_spans(profile);
    for (uint32_t w = 0; w < profile->n_windows && why == NULL; w++) {
        const struct profile_window *window = &profile->windows[w];
        for (uint32_t i = 0; i < window->n_thread_events && why == NULL; i++)
            why = apply_thread_event(profile, n_spans, &n_lanes,
                                     &profile->thread_events[window->first_thread_event + i], w);
    }
    memory_unmap(n_spans, bytes);
    return why == NULL && n_lanes != profile->n_threads ? "some thread never starts" : why;
}
