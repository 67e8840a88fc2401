/* schedule.c - coarsens the global order into turns; see schedule.h. */
#include "schedule.h"
#include "large.h"

#include <stdlib.h>
#include <string.h>

#define NO_EVENT UINT32_MAX

/* What the greedy algorithm needs while it runs. */
struct draft {
    const struct trace_event *events;
    uint32_t n_events;
    uint32_t *next_of_lane; /* [n_events] following event of the same lane */
    uint32_t *cursor;       /* [n_lanes] next event to run */
    uint32_t *last_event;   /* [n_lanes] */
    unsigned char *exits;   /* [n_lanes] the trace has a thread exit */
    unsigned char *is_done; /* [n_events] */
    uint32_t *slot_next;    /* [n_slots] sequence of the operation that may run */
    uint32_t n_ordered;
    struct schedule *schedule;
};

static bool is_thread_event(const struct trace_event *event) {
    return event->op == TRACE_THREAD_START || event->op == TRACE_THREAD_EXIT;
}

/* Numbers the lanes: thread 0 is lane 0, every thread start makes a new one, and so does
 * the first event of a thread without a start. */
static bool number_lanes(struct draft *draft, uint32_t n_threads) {
    struct schedule *schedule = draft->schedule;
    uint32_t *lane_of_thread = malloc(((size_t)n_threads + 1) * sizeof(uint32_t));
    schedule->lane_of = large_alloc((size_t)draft->n_events + 1, sizeof(uint32_t));
    if (lane_of_thread == NULL || schedule->lane_of == NULL) {
        free(lane_of_thread);
        return false;
    }
    for (uint32_t thread = 0; thread < n_threads; thread++)
        lane_of_thread[thread] = thread == 0 ? 0 : NO_THREAD;
    schedule->n_lanes = 1;
    for (uint32_t i = 0; i < draft->n_events; i++) {
        const struct trace_event *event = &draft->events[i];
        uint32_t *lane = &lane_of_thread[event->thread];
        if (event->thread != 0 && (event->op == TRACE_THREAD_START || *lane == NO_THREAD))
            *lane = schedule->n_lanes++;
        schedule->lane_of[i] = *lane;
    }
    free(lane_of_thread);
    return true;
}

static bool draft_allocate(struct draft *draft, uint32_t n_slots) {
    size_t n_events = (size_t)draft->n_events + 1, n_lanes = draft->schedule->n_lanes;
    draft->next_of_lane = large_alloc(n_events, sizeof(uint32_t));
    draft->cursor = malloc(n_lanes * sizeof(uint32_t));
    draft->last_event = malloc(n_lanes * sizeof(uint32_t));
    draft->exits = calloc(n_lanes, 1);
    draft->is_done = large_alloc(n_events, 1);
    draft->slot_next = calloc((size_t)n_slots + 1, sizeof(uint32_t));
    draft->schedule->order = large_alloc(n_events, sizeof(uint32_t));
    draft->schedule->sequences = large_alloc(n_events, sizeof(uint32_t));
    draft->schedule->lanes = calloc(n_lanes, sizeof(struct lane));
    return draft->next_of_lane && draft->cursor && draft->last_event && draft->exits &&
           draft->is_done && draft->slot_next && draft->schedule->order &&
           draft->schedule->sequences && draft->schedule->lanes;
}

static void draft_release(struct draft *draft) {
    free(draft->next_of_lane);
    free(draft->cursor);
    free(draft->last_event);
    free(draft->exits);
    free(draft->is_done);
    free(draft->slot_next);
}

/* Links the events of each lane and numbers those of each slot. */
static void link_events(struct draft *draft, uint32_t n_slots) {
    for (uint32_t lane = 0; lane < draft->schedule->n_lanes; lane++)
        draft->cursor[lane] = draft->last_event[lane] = NO_EVENT;
    for (uint32_t i = 0; i < draft->n_events; i++) {
        const struct trace_event *event = &draft->events[i];
        uint32_t lane = draft->schedule->lane_of[i];
        uint32_t *last = &draft->last_event[lane];
        draft->next_of_lane[i] = NO_EVENT;
        if (*last == NO_EVENT)
            draft->cursor[lane] = i;
        else
            draft->next_of_lane[*last] = i;
        *last = i;
        if (event->op == TRACE_THREAD_EXIT && lane != 0)
            draft->exits[lane] = 1;
        draft->schedule->sequences[i] =
            is_thread_event(event) ? 0 : draft->slot_next[event->slot]++;
    }
    for (uint32_t slot = 0; slot < n_slots; slot++)
        draft->slot_next[slot] = 0;
}

static bool may_run(const struct draft *draft, uint32_t index) {
    const struct trace_event *event = &draft->events[index];
    return is_thread_event(event) ||
           draft->slot_next[event->slot] == draft->schedule->sequences[index];
}

/* Takes events of one lane from its cursor on; returns how many. */
static uint32_t take_events(struct draft *draft, uint32_t lane, uint64_t horizon_ns) {
    uint32_t taken = 0;
    uint32_t index = draft->cursor[lane];
    while (index != NO_EVENT && taken < SCHEDULE_TURN_EVENTS && may_run(draft, index) &&
           (taken == 0 || draft->events[index].time_ns <= horizon_ns)) {
        if (!is_thread_event(&draft->events[index]))
            draft->slot_next[draft->events[index].slot]++;
        draft->is_done[index] = 1;
        draft->schedule->order[draft->n_ordered++] = index;
        taken++;
        index = draft->next_of_lane[index];
    }
    draft->cursor[lane] = index;
    return taken;
}

static struct turn *append_turn(struct schedule *schedule) {
    if (schedule->n_turns == schedule->turn_capacity) {
        uint64_t capacity = schedule->turn_capacity * 2 + 64;
        struct turn *turns = realloc(schedule->turns, capacity * sizeof *turns);
        if (turns == NULL)
            return NULL;
        schedule->turns = turns;
        schedule->turn_capacity = capacity;
    }
    return &schedule->turns[schedule->n_turns++];
}

/* Records that `lane` ran the last `taken` events: a new turn, or a longer last one. */
static bool note_turn(struct draft *draft, uint32_t lane, uint32_t taken) {
    struct schedule *schedule = draft->schedule;
    struct turn *turn = schedule->n_turns > 0 ? &schedule->turns[schedule->n_turns - 1] : NULL;
    if (turn == NULL || turn->lane != lane) {
        turn = append_turn(schedule);
        if (turn == NULL)
            return false;
        *turn = (struct turn){
            .begin = draft->n_ordered - taken, .next_same_lane = NO_TURN, .lane = lane};
    }
    turn->end = draft->n_ordered;
    if (draft->cursor[lane] == NO_EVENT && draft->exits[lane])
        turn->flags |= TURN_EXITS;
    return true;
}

/* One lane keeps the recorded order and needs one turn. */
static bool run_single_lane(struct draft *draft) {
    for (uint32_t i = 0; i < draft->n_events; i++)
        draft->schedule->order[i] = i;
    draft->n_ordered = draft->n_events;
    draft->cursor[0] = NO_EVENT;
    return draft->n_events == 0 || note_turn(draft, 0, draft->n_events);
}

static bool run_draft(struct draft *draft) {
    if (draft->schedule->n_lanes == 1)
        return run_single_lane(draft);
    memset(draft->is_done, 0, draft->n_events);
    for (uint32_t oldest = 0; oldest < draft->n_events; oldest++) {
        if (draft->is_done[oldest])
            continue;
        uint32_t lane = draft->schedule->lane_of[oldest];
        uint64_t horizon_ns = draft->events[oldest].time_ns + SCHEDULE_TURN_NS;
        if (!note_turn(draft, lane, take_events(draft, lane, horizon_ns)))
            return false;
    }
    return true;
}

/* Links the turns of each lane and marks the first. */
static void link_turns(struct schedule *schedule, uint64_t *last_turn) {
    for (uint32_t lane = 0; lane < schedule->n_lanes; lane++) {
        schedule->lanes[lane].first_turn = last_turn[lane] = NO_TURN;
        schedule->lanes[lane].previous_user = NO_THREAD;
    }
    for (uint64_t i = 0; i < schedule->n_turns; i++) {
        struct turn *turn = &schedule->turns[i];
        struct lane *lane = &schedule->lanes[turn->lane];
        if (lane->first_turn == NO_TURN) {
            lane->first_turn = i;
            turn->flags |= TURN_STARTS;
        } else {
            schedule->turns[last_turn[turn->lane]].next_same_lane = i;
        }
        if ((turn->flags & TURN_EXITS) != 0)
            lane->exits = 1;
        last_turn[turn->lane] = i;
    }
}

/* Gives each lane the stack of one that has exited, or a new one.  A thread is created
 * at the end of the turn before its first, so a lane that exits in that very turn
 * still needs its stack. */
static void assign_stacks(struct schedule *schedule, uint32_t *idle_users) {
    uint32_t n_idle = 0;
    for (uint64_t i = 0; i < schedule->n_turns; i++) {
        const struct turn *turn = &schedule->turns[i];
        struct lane *lane = &schedule->lanes[turn->lane];
        if ((turn->flags & TURN_STARTS) != 0 && turn->lane != 0) {
            if (n_idle > 0) {
                lane->previous_user = idle_users[--n_idle];
                lane->stack = schedule->lanes[lane->previous_user].stack;
            } else {
                lane->stack = schedule->n_stacks++;
            }
        }
        if (i > 0 && (turn[-1].flags & TURN_EXITS) != 0)
            idle_users[n_idle++] = turn[-1].lane;
    }
}

static bool finish_lanes(struct schedule *schedule) {
    uint64_t *last_turn = malloc(schedule->n_lanes * sizeof *last_turn);
    uint32_t *idle_users = malloc(schedule->n_lanes * sizeof *idle_users);
    bool is_enough = last_turn != NULL && idle_users != NULL;
    if (is_enough) {
        link_turns(schedule, last_turn);
        assign_stacks(schedule, idle_users);
    }
    free(last_turn);
    free(idle_users);
    return is_enough;
}

bool schedule_build(const struct trace_event *events, uint32_t n_events, uint32_t n_threads,
                    uint32_t n_slots, struct schedule *schedule) {
    struct draft draft = {.events = events, .n_events = n_events, .schedule = schedule};
    *schedule = (struct schedule){.n_stacks = 0};
    bool is_built = number_lanes(&draft, n_threads) && draft_allocate(&draft, n_slots);
    if (is_built) {
        link_events(&draft, n_slots);
        is_built = run_draft(&draft) && finish_lanes(schedule);
    }
    draft_release(&draft);
    if (!is_built)
        schedule_release(schedule);
    return is_built;
}

bool schedule_single(uint64_t n_events, struct schedule *schedule) {
    *schedule = (struct schedule){.n_lanes = 1};
    schedule->lanes = calloc(1, sizeof(struct lane));
    struct turn *turn = n_events > 0 ? append_turn(schedule) : NULL;
    if (turn != NULL)
        *turn = (struct turn){.end = n_events, .next_same_lane = NO_TURN};
    return schedule->lanes != NULL && (turn != NULL || n_events == 0) && finish_lanes(schedule);
}

void schedule_release(struct schedule *schedule) {
    free(schedule->order);
    free(schedule->sequences);
    free(schedule->turns);
    free(schedule->lane_of);
    free(schedule->lanes);
    *schedule = (struct schedule){.n_stacks = 0};
}
