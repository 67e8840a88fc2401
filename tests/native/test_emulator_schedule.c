/* Schedules of random traces are legal, complete and coarse. */
#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_EVENTS  20000u
#define N_SLOTS   200u
#define N_THREADS 5u

static int n_failed;

static void require(bool is_true, const char *what, uint64_t where) {
    if (is_true)
        return;
    if (n_failed++ < 20)
        fprintf(stderr, "%s at %llu\n", what, (unsigned long long)where);
}

static uint64_t draw(uint64_t *state, uint64_t limit) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % limit;
}

/* Threads that exit and start again; blocks freed by any thread, slots used again only
 * by the thread that freed them. */
static void make_events(struct trace_event *events, uint64_t seed, uint32_t n_threads) {
    bool is_live[N_SLOTS] = {false}, is_running[N_THREADS] = {true};
    uint32_t user[N_SLOTS];
    uint64_t state = seed;
    memset(user, 0xff, sizeof user);
    for (uint32_t i = 0; i < N_EVENTS; i++) {
        uint32_t thread = (uint32_t)draw(&state, n_threads);
        uint32_t slot = (uint32_t)draw(&state, N_SLOTS);
        bool is_mine = user[slot] == UINT32_MAX || user[slot] == thread;
        struct trace_event *event = &events[i];
        *event = (struct trace_event){.time_ns = UINT64_C(500) * i, .thread = thread};
        if (!is_running[thread]) {
            event->op = TRACE_THREAD_START;
            is_running[thread] = true;
        } else if (thread > 0 && draw(&state, 200) == 0) {
            event->op = TRACE_THREAD_EXIT;
            is_running[thread] = false;
        } else if (is_live[slot]) {
            event->slot = slot;
            event->op = draw(&state, 3) == 0 ? TRACE_REALLOC : TRACE_FREE;
            is_live[slot] = event->op == TRACE_REALLOC;
            user[slot] = thread;
        } else if (is_mine) {
            event->slot = slot;
            event->op = TRACE_MALLOC;
            is_live[slot] = true;
        } else {
            i--;
        }
    }
}

/* Each event once; slots and lanes in their recorded order. */
static void check_order(const struct trace_event *events, const struct schedule *schedule) {
    static unsigned char seen[N_EVENTS];
    uint32_t slot_next[N_SLOTS] = {0};
    int64_t *lane_last = malloc(schedule->n_lanes * sizeof *lane_last);
    memset(seen, 0, sizeof seen);
    memset(lane_last, 0xff, schedule->n_lanes * sizeof *lane_last);
    for (uint32_t i = 0; i < N_EVENTS; i++) {
        uint32_t event = schedule->order[i], lane = schedule->lane_of[event];
        require(!seen[event], "an event runs twice", event);
        seen[event] = 1;
        require(lane_last[lane] < (int64_t)event, "a lane runs backwards", event);
        lane_last[lane] = event;
        if (events[event].op < TRACE_THREAD_START)
            require(schedule->sequences[event] == slot_next[events[event].slot]++,
                    "a slot's operations change places", event);
    }
    free(lane_last);
}

/* Turns cover the order, alternate, start and end lanes where they should. */
static void check_turns(const struct trace_event *events, const struct schedule *schedule) {
    unsigned char *has_started = calloc(schedule->n_lanes, 1);
    unsigned char *has_exited = calloc(schedule->n_lanes, 1);
    uint64_t position = 0;
    for (uint64_t i = 0; i < schedule->n_turns; i++) {
        const struct turn *turn = &schedule->turns[i];
        require(turn->begin == position && turn->end > turn->begin, "turns leave a gap", i);
        position = turn->end;
        require(i == 0 || turn[-1].lane != turn->lane, "two turns of one lane meet", i);
        require(((turn->flags & TURN_STARTS) != 0) == !has_started[turn->lane], "start flag", i);
        require(!has_exited[turn->lane], "a lane runs after its exit", i);
        has_started[turn->lane] = 1;
        uint32_t last = schedule->order[turn->end - 1];
        bool is_exit = turn->lane != 0 && events[last].op == TRACE_THREAD_EXIT;
        require(((turn->flags & TURN_EXITS) != 0) == is_exit, "exit flag", i);
        has_exited[turn->lane] = is_exit;
        uint64_t span = events[last].time_ns - events[schedule->order[turn->begin]].time_ns;
        require(turn->end - turn->begin <= UINT64_C(2) * SCHEDULE_TURN_EVENTS ||
                    span <= SCHEDULE_TURN_NS * 2 || schedule->n_lanes == 1,
                "a turn is too long", i);
    }
    require(position == N_EVENTS, "turns do not cover the trace", position);
    free(has_started);
    free(has_exited);
}

/* Two lanes that live at the same time never share a stack. */
static void check_stacks(const struct schedule *schedule) {
    uint32_t holder[N_THREADS * 8];
    memset(holder, 0xff, sizeof holder);
    require(schedule->n_stacks < N_THREADS * 2, "too many stacks", schedule->n_stacks);
    for (uint64_t i = 0; i < schedule->n_turns; i++) {
        const struct turn *turn = &schedule->turns[i];
        const struct lane *lane = &schedule->lanes[turn->lane];
        if (turn->lane != 0 && (turn->flags & TURN_STARTS) != 0) {
            require(holder[lane->stack] == lane->previous_user, "a stack is taken too early", i);
            holder[lane->stack] = turn->lane;
        }
        if (turn->lane != 0 && (turn->flags & TURN_EXITS) != 0)
            require(lane->exits == 1, "a lane does not know that it exits", i);
    }
}

/* Two lanes that share nothing and alternate, with this time from event to event. */
static void alternate(struct trace_event *events, uint64_t step_ns) {
    for (uint32_t i = 0; i < N_EVENTS; i++)
        events[i] = (struct trace_event){.time_ns = step_ns * i,
                                         .thread = i % 2,
                                         .slot = i % 2,
                                         .op = i / 2 % 2 == 0 ? TRACE_MALLOC : TRACE_FREE};
}

static void check_coarseness(void) {
    static struct trace_event events[N_EVENTS];
    struct schedule schedule;
    alternate(events, 100);
    events[1].op = TRACE_THREAD_START;
    events[3].op = TRACE_MALLOC;
    events[N_EVENTS - 1].op = TRACE_FREE;
    if (!schedule_build(events, N_EVENTS - 1, 2, 2, &schedule))
        return require(false, "no memory", 0);
    require(schedule.n_turns <= N_EVENTS / 900 + 4, "the schedule is too fine", schedule.n_turns);
    schedule_release(&schedule);
}

/* The first turn of lane 0 ends where the header says: by its length, or by the time beyond the
 * oldest event that waits, which is the turn's own first. */
static void check_first_turn(uint64_t step_ns, uint64_t expected_events) {
    static struct trace_event events[N_EVENTS];
    struct schedule schedule;
    alternate(events, step_ns);
    if (!schedule_build(events, N_EVENTS, 2, 2, &schedule))
        return require(false, "no memory", 0);
    require(schedule.turns[0].lane == 0 && schedule.turns[0].begin == 0, "the oldest first", 0);
    require(schedule.turns[0].end == expected_events, "length of a turn", schedule.turns[0].end);
    schedule_release(&schedule);
}

int main(void) {
    static struct trace_event events[N_EVENTS];
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct schedule schedule;
        uint32_t n_threads = 1 + (uint32_t)seed % N_THREADS;
        make_events(events, seed, n_threads);
        if (!schedule_build(events, N_EVENTS, n_threads, N_SLOTS, &schedule)) {
            require(false, "no memory", seed);
            continue;
        }
        check_order(events, &schedule);
        check_turns(events, &schedule);
        check_stacks(&schedule);
        schedule_release(&schedule);
    }
    check_coarseness();
    check_first_turn(0, SCHEDULE_TURN_EVENTS);
    check_first_turn(SCHEDULE_TURN_NS / 2, 2);     /* at 0, and at the horizon itself */
    check_first_turn(SCHEDULE_TURN_NS / 2 + 1, 1); /* the second is beyond it */
    check_first_turn(SCHEDULE_TURN_NS / 20, 11);
    if (n_failed == 0)
        puts("passed");
    return n_failed != 0;
}
