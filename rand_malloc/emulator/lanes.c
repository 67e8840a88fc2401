/* lanes.c - one real thread per lane of the trace, and which may run.
 *
 * Baton mode: exactly one lane runs; at the end of a turn it has the thread of the
 * next turn created if that is new, hands the baton over and waits.  A lane whose trace ends
 * with a thread exit really returns from its start routine, so that the allocator
 * flushes its caches; the lane that runs next first waits until the kernel has
 * removed the thread.  All others are held until the process ends.
 * Every pthread call is made by the process's first thread, at a point that the schedule
 * fixes: libc allocates for each thread, and such a block among those of another lane
 * would keep what is below it from going back to the kernel.
 *
 * Free-running mode: lanes run as they like and wait only for slots, thread starts and
 * stacks.  All waits are for something earlier in the schedule: no deadlock.
 */
#include "lanes.h"
#include "guests.h"
#include "own_text.h"
#include "rawsys.h"
#include "replay.h"
#include "wait.h"

#include <pthread.h>
#include <sys/syscall.h>

#define CACHE_LINE 64

enum go {
    GO_WAIT = 0,
    GO_RUN = 1,   /* the baton is here */
    GO_CREATE = 2 /* lane 0 only: create the thread of field.wanted, then wait on */
};

/* State of one lane; its own cache line, as waiting threads watch it. */
struct lane_state {
    _Alignas(CACHE_LINE) _Atomic uint32_t go; /* enum go */
    _Atomic uint32_t tid;                     /* of the running thread; 0 before it runs */
    bool has_exited;                          /* the kernel has forgotten the thread */
    bool is_joined;
    pthread_t handle;
    struct tally tally;
};

static struct {
    struct replay *replay;
    struct lane_state *states;  /* [n_lanes] */
    uint32_t wanted;            /* baton: lane whose thread lane 0 is to create */
    _Atomic uint32_t is_done;   /* free-running: all lanes are at their end */
    _Atomic uint32_t n_running; /* free-running: lanes not yet at their end */
} field;

/* Once only: the kernel may give the number to a new thread. */
WAITING static void see_off(uint32_t lane) {
    struct lane_state *state = &field.states[lane];
    if (lane == 0 || state->has_exited)
        return;
    wait_for_exit(&state->tid);
    state->has_exited = true;
}

static void bury(uint32_t lane) {
    struct lane_state *state = &field.states[lane];
    if (lane == 0 || state->is_joined)
        return;
    see_off(lane);
    state->is_joined = true;
    pthread_join(state->handle, NULL);
}

static void *lane_main(void *argument);

static void create(uint32_t index) {
    struct replay *replay = field.replay;
    const struct lane *lane = &replay->lanes[index];
    if (index == 0)
        return; /* the process's first thread waits already */
    if (lane->previous_user != NO_THREAD)
        bury(lane->previous_user);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, replay->stacks + (uint64_t)lane->stack * STACK_BYTES,
                          STACK_BYTES);
    starts_lane = true;
    int error =
        pthread_create(&field.states[index].handle, &attributes, lane_main, &field.states[index]);
    starts_lane = false;
    if (error != 0)
        setup_fail(replay, "start a thread", error);
}

WAITING static void set_and_wake(_Atomic uint32_t *word, uint32_t value) {
    atomic_store_explicit(word, value, memory_order_release);
    wake_one(word);
}

/* The baton goes to the lane of the given turn; past the last turn to lane 0, which ends the
 * run. */
WAITING static void hand_over(uint64_t turn) {
    const struct replay *replay = field.replay;
    uint32_t lane = turn < replay->plan->n_turns ? replay->turns[turn].lane : 0;
    set_and_wake(&field.states[lane].go, GO_RUN);
}

/* Lane 0 creates threads for others while it waits. */
WAITING static void wait_for_baton(struct lane_state *state) {
    for (;;) {
        wait_while(&state->go, GO_WAIT);
        if (atomic_load_explicit(&state->go, memory_order_acquire) == GO_RUN)
            break;
        create(field.wanted);
        set_and_wake(&state->go, GO_WAIT);
    }
    atomic_store_explicit(&state->go, GO_WAIT, memory_order_relaxed);
}

WAITING static void have_created(uint32_t lane, uint32_t wanted) {
    if (lane == 0 || wanted == 0 || field.replay->is_free_running) {
        create(wanted);
        return;
    }
    field.wanted = wanted;
    set_and_wake(&field.states[0].go, GO_CREATE);
    wait_while(&field.states[0].go, GO_CREATE);
}

WAITING static void take_baton(uint64_t turn, struct lane_state *state) {
    const struct turn *turns = field.replay->turns;
    wait_for_baton(state);
    if (turn > 0 && (turns[turn - 1].flags & TURN_EXITS) != 0)
        see_off(turns[turn - 1].lane);
}

/* Returns true if the thread exits at the end of the turn. */
WAITING static bool run_turn(uint32_t lane, uint64_t index) {
    struct replay *replay = field.replay;
    const struct turn *turn = &replay->turns[index];
    struct lane_state *state = &field.states[lane];
    if (!replay->is_free_running)
        take_baton(index, state);
    replay_turn(replay, turn, &state->tally);
    if (index + 1 < replay->plan->n_turns && (turn[1].flags & TURN_STARTS) != 0)
        have_created(lane, turn[1].lane);
    if (!replay->is_free_running)
        hand_over(index + 1);
    return (turn->flags & TURN_EXITS) != 0;
}

WAITING static bool run_lane(uint32_t lane) {
    bool exits = false;
    uint64_t turn = field.replay->lanes[lane].first_turn;
    while (turn != NO_TURN && !exits) {
        exits = run_turn(lane, turn);
        turn = field.replay->turns[turn].next_same_lane;
    }
    if (field.replay->is_free_running &&
        atomic_fetch_sub_explicit(&field.n_running, 1, memory_order_acq_rel) == 1)
        set_and_wake(&field.is_done, 1);
    return exits;
}

WAITING static void *lane_main(void *argument) {
    struct lane_state *state = argument;
    static _Atomic uint32_t never;
    atomic_store_explicit(&state->tid, (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0),
                          memory_order_release);
    if (!run_lane((uint32_t)(state - field.states)))
        wait_while(&never, 0);
    return NULL;
}

/* The first turn may belong to another thread than the process's first. */
static void start_first(const struct replay *replay) {
    if (replay->plan->n_turns == 0)
        return;
    create(replay->turns[0].lane);
    if (!replay->is_free_running)
        hand_over(0);
}

static uint32_t count_lanes(const struct replay *replay) {
    uint32_t n_lanes = 0;
    for (uint32_t lane = 0; lane < replay->plan->n_lanes; lane++)
        n_lanes += lane == 0 || replay->lanes[lane].first_turn != NO_TURN;
    return n_lanes;
}

void lanes_prepare(struct replay *replay) {
    uint64_t n_lanes = replay->plan->n_lanes;
    field.replay = replay;
    field.states = map_populated(replay, n_lanes * sizeof *field.states, "lanes");
    field.n_running = count_lanes(replay);
}

void lanes_run(struct replay *replay) {
    if (replay->plan->n_turns == 0)
        return;
    start_first(replay);
    run_lane(0);
    if (replay->is_free_running)
        wait_while(&field.is_done, 0);
    else
        wait_for_baton(&field.states[0]);
    for (uint32_t lane = 1; lane < replay->plan->n_lanes; lane++)
        if (replay->lanes[lane].exits != 0)
            bury(lane);
}

void lanes_total(const struct replay *replay, struct tally *total) {
    for (uint32_t lane = 0; lane < replay->plan->n_lanes; lane++) {
        total->checksum += field.states[lane].tally.checksum;
        total->verified_blocks += field.states[lane].tally.verified_blocks;
        total->edge_waits += field.states[lane].tally.edge_waits;
        total->edge_wait_ticks += field.states[lane].tally.edge_wait_ticks;
    }
}
