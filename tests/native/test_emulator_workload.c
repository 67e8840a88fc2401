/* The plan of a small trace: live bytes, times and sample points as computed by hand. */
#include "check.h"
#include "workload.h"

#include <stdio.h>

/* 100 bytes for 1 ms, 1100 bytes for 3 ms, 1000 bytes for the last 1 ms. */
static const struct trace_event EVENTS[] = {
    {.time_ns = 0, .size = 100, .slot = 0, .op = TRACE_MALLOC},
    {.time_ns = 1000000, .size = 1000, .slot = 1, .op = TRACE_CALLOC},
    {.time_ns = 4000000, .size = 0, .slot = 0, .op = TRACE_FREE},
};

static void check_small(void) {
    struct workload workload;
    struct trace_info info = {
        .n_threads = 1, .n_slots = 2, .n_events = 3, .duration_ns = 5000000, .is_complete = 1};
    require(workload_from_events(EVENTS, &info, &workload) == 0, "the plan can be made");
    require(workload.plan->n_ops == 3 && workload.plan->n_turns == 1, "counts");
    require(workload.peak_live_bytes == 1100, "peak of live bytes");
    require(workload.final_live_bytes == 1000, "live bytes at the end");
    require(workload.mean_live_bytes > 879.9 && workload.mean_live_bytes < 880.1,
            "mean = (100 * 1 + 1100 * 3 + 1000 * 1) / 5");
    const struct sample_point *points = plan_at(workload.plan, workload.plan->samples_offset);
    require(workload.plan->n_samples == 3, "a sample after each operation");
    require(workload.sample_live[1] == 1100 && points[1].time_ns == 1000000, "sample 1");
    require(workload_live_during(&workload, 1) == 1100, "what is allocated is live");
    require(workload_live_during(&workload, 2) == 1100, "what is freed is so until then");
    const struct op *ops = plan_at(workload.plan, workload.plan->ops_offset);
    require(op_size(&ops[1]) == 1000 && ops[2].sequence == 1, "operations");
    workload_release(&workload);
}

/* A realloc has the block as it was before it, or as it is after it. */
static void check_live_during_realloc(void) {
    static const struct trace_event events[] = {
        {.time_ns = 0, .size = 100, .op = TRACE_MALLOC},
        {.time_ns = 1, .size = 700, .op = TRACE_REALLOC},
        {.time_ns = 2, .size = 50, .op = TRACE_REALLOC},
    };
    struct workload workload;
    struct trace_info info = {
        .n_threads = 1, .n_slots = 1, .n_events = 3, .duration_ns = 3, .is_complete = 1};
    require(workload_from_events(events, &info, &workload) == 0, "the plan can be made");
    require(workload_live_during(&workload, 1) == 700, "a growing block is as large as it becomes");
    require(workload_live_during(&workload, 2) == 700, "a shrinking one as it was");
    workload_release(&workload);
}

/* A long busy trace with one long pause is sampled about 10 000 times, once before it. */
static void check_samples(void) {
    enum {
        N = 1000000,
        PAUSE = 500001
    };
    static struct trace_event events[N];
    struct workload workload;
    struct trace_info info = {.n_threads = 1, .n_slots = 1, .n_events = N, .is_complete = 1};
    for (uint32_t i = 0; i < N; i++)
        events[i] = (struct trace_event){.time_ns = i + (i > PAUSE ? 1000000000 : 0),
                                         .size = i % 2 == 0 ? 64 : 0,
                                         .op = i % 2 == 0 ? TRACE_MALLOC : TRACE_FREE};
    require(workload_from_events(events, &info, &workload) == 0, "the large plan can be made");
    const struct sample_point *points = plan_at(workload.plan, workload.plan->samples_offset);
    uint64_t n_in_pause = 0;
    for (uint64_t i = 0; i < workload.plan->n_samples; i++) {
        require(i == 0 || points[i].n_ops > points[i - 1].n_ops ||
                    points[i].time_ns > points[i - 1].time_ns,
                "sample points ascend");
        n_in_pause += points[i].n_ops == PAUSE + 1;
    }
    require(n_in_pause == 11, "the heap is read before the pause and every 0.1 s in it");
    require(workload.plan->n_samples > 9000 && workload.plan->n_samples < 30000, "sample count");
    require(points[workload.plan->n_samples - 1].n_ops == N, "the heap is read at the end");
    workload_release(&workload);
}

/* Exits that are far ahead of the operations beside them are no reason to sample again
 * and again: the number of samples stays within its bound. */
static void check_exits(void) {
    enum {
        THREADS = 65535,
        STEP = 3,
        N = THREADS * STEP + 1
    };
    static struct trace_event events[N];
    struct workload workload;
    struct trace_info info = {
        .n_threads = THREADS + 1, .n_slots = THREADS, .n_events = N, .is_complete = 1};
    for (size_t i = 0; i < THREADS; i++) {
        uint32_t thread = (uint32_t)i + 1;
        events[2 * i] = (struct trace_event){.op = TRACE_THREAD_START, .thread = thread};
        events[2 * i + 1] = (struct trace_event){
            .op = TRACE_MALLOC, .thread = thread, .slot = thread - 1, .size = 64};
        events[2 * (size_t)THREADS + i] =
            (struct trace_event){.op = TRACE_THREAD_EXIT, .thread = thread, .time_ns = 100000};
    }
    events[N - 1] = (struct trace_event){.op = TRACE_FREE, .time_ns = 1000000};
    require(workload_from_events(events, &info, &workload) == 0, "the plan of exits can be made");
    require(workload.plan->n_samples <= 3 * (WORKLOAD_SAMPLES + 1), "samples within the bound");
    workload_release(&workload);
}

/* Thread 1 allocates, idles for 1 ms and exits, which may give memory back; a millisecond later
 * thread 0 goes on.  The heap is read before and after the exit, each with the time of what came
 * before. */
static void check_exit_is_read(void) {
    static const struct trace_event threads[] = {
        {.op = TRACE_THREAD_START, .thread = 1},
        {.op = TRACE_MALLOC, .thread = 1, .slot = 0, .size = 100},
        {.op = TRACE_THREAD_EXIT, .thread = 1, .time_ns = 1000000},
        {.op = TRACE_MALLOC, .slot = 1, .size = 200, .time_ns = 2000000},
    };
    struct trace_info info = {
        .n_threads = 2, .n_slots = 2, .n_events = 4, .duration_ns = 2000000, .is_complete = 1};
    struct workload workload;
    require(workload_from_events(threads, &info, &workload) == 0, "the plan can be made");
    const struct turn *turns = plan_at(workload.plan, workload.plan->turns_offset);
    const struct sample_point *points = plan_at(workload.plan, workload.plan->samples_offset);
    uint64_t last = workload.plan->n_turns - 1;
    require(workload.plan->n_samples == 3, "before the exit, after it, at the end");
    require(points[0].n_ops == 1 && points[1].n_ops == 1 && points[2].n_ops == 2, "sample points");
    require(points[0].time_ns == 0 && points[1].time_ns == 1000000, "sample times");
    require(turns[last - 1].end_sample == 1 && turns[last].first_sample == 1, "around the exit");
    require(turns[last].end_sample == 3, "the last turn reads the heap behind it");
    require(turns[last - 1].exit_ns == 1000000, "the clock at the exit");
    require(turns[0].begin == 0 && turns[last].begin == 1 && turns[last].end == 2, "turns");
    workload_release(&workload);
}

/* Thread 1 exits while thread 0 runs, in a turn behind that of thread 0: the clock stands still. */
static void check_exit_among_operations(void) {
    static const struct trace_event threads[] = {
        {.op = TRACE_MALLOC, .slot = 0, .size = 100},
        {.op = TRACE_THREAD_START, .thread = 1, .time_ns = 1},
        {.op = TRACE_THREAD_EXIT, .thread = 1, .time_ns = 10},
        {.op = TRACE_MALLOC, .slot = 1, .size = 200, .time_ns = 1000},
    };
    struct trace_info info = {
        .n_threads = 2, .n_slots = 2, .n_events = 4, .duration_ns = 1000, .is_complete = 1};
    struct workload workload;
    require(workload_from_events(threads, &info, &workload) == 0, "the plan can be made");
    const struct turn *turns = plan_at(workload.plan, workload.plan->turns_offset);
    require(workload.plan->n_turns == 2 && turns[0].end == 2, "the exit comes last");
    require(turns[1].exit_ns == 1000, "and not before what has happened");
    workload_release(&workload);
}

int main(void) {
    check_exit_is_read();
    check_exit_among_operations();
    check_small();
    check_live_during_realloc();
    check_samples();
    check_exits();
    return verdict();
}
