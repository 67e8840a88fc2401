/* replay.c - performs the operations of the plan: call the allocator, touch, verify.
 *
 * The harness around each call costs the same under every allocator, apart from the
 * number of pages a block spans.  realloc to 0 bytes is replayed as realloc to 1: the
 * C standard lets it free the block, but the trace says that the slot lives on.
 */
#include "replay.h"
#include "content.h"
#include "guests.h"
#include "latency.h"
#include "meter.h"
#include "trace.h"
#include "wait.h"

#include <stdlib.h>

/* The place of one operation in the run; keeps argument lists short. */
struct call {
    struct replay *replay;
    const struct op *op;
    uint64_t index;
    struct tally *tally;
    struct histogram *histograms; /* of this thread, or NULL */
};

#define INLINE static inline __attribute__((always_inline))

INLINE void note_latency(const struct call *call, int kind, uint64_t begin) {
    if (call->histograms != NULL)
        histogram_add(&call->histograms[kind], latency_ticks() - begin);
}

INLINE uint64_t start_latency(const struct call *call) {
    return call->histograms != NULL ? latency_ticks() : 0;
}

INLINE void require_alignment(const struct call *call, const void *address, uint64_t bytes) {
    uint64_t alignment = bytes >= 16 ? 16 : 8;
    if (call->op->kind == TRACE_ALIGNED && (UINT64_C(1) << op_align_log2(call->op)) > alignment)
        alignment = UINT64_C(1) << op_align_log2(call->op);
    if (((uintptr_t)address & (alignment - 1)) != 0)
        replay_fail(call->replay, FAILURE_ALIGNMENT, call->index, (uint64_t)(uintptr_t)address);
}

/* posix_memalign wants at least the alignment of a pointer. */
static void *allocate_aligned(uint64_t bytes, unsigned align_log2) {
    void *address = NULL;
    size_t alignment = align_log2 > 3 ? (size_t)1 << align_log2 : sizeof(void *);
    return posix_memalign(&address, alignment, bytes) == 0 ? address : NULL;
}

/* Bytes of a block that a partial operation touches (binary search). */
__attribute__((noinline)) static uint64_t find_partial(const struct call *call) {
    const struct partial *partials = call->replay->partials;
    uint64_t low = 0, high = call->replay->plan->n_partials - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (partials[middle].op < call->index)
            low = middle + 1;
        else
            high = middle;
    }
    return partials[low].touched_bytes;
}

INLINE uint64_t stamped_bytes(const struct call *call, uint64_t bytes) {
    bool is_partial =
        (call->op->details & OP_IS_PARTIAL) != 0 && call->replay->touch >= TOUCH_RECORDED;
    return __builtin_expect(is_partial, 0) ? find_partial(call) : bytes;
}

INLINE void do_allocate(const struct call *call, struct block *block) {
    struct replay *replay = call->replay;
    const struct op *op = call->op;
    uint64_t bytes = op_size(op);
    uint64_t begin = start_latency(call);
    void *address = op->kind == TRACE_CALLOC    ? calloc(1, bytes)
                    : op->kind == TRACE_ALIGNED ? allocate_aligned(bytes, op_align_log2(op))
                                                : malloc(bytes);
    note_latency(call, 0, begin);
    block->address = address;
    block->stamped = stamped_bytes(call, bytes);
    block->live = 1;
    if (bytes == 0)
        return; /* NULL is a legal answer */
    if (address == NULL)
        replay_fail(replay, FAILURE_NULL, call->index, 0);
    require_alignment(call, address, bytes);
    uint64_t word = content_word(replay->seed, op->slot, op->sequence);
    if (op->kind != TRACE_CALLOC) {
        content_stamp(address, block->stamped, word, replay->touch);
        return;
    }
    uint64_t wrong = content_stamp_zeroed(address, block->stamped, word, replay->touch);
    if (wrong != CONTENT_INTACT)
        replay_fail(replay, FAILURE_NOT_ZERO, call->index, wrong);
}

/* A sum, so that it does not depend on the order of the lanes. */
INLINE void note_verified(struct tally *tally, const struct op *op, uint64_t sum) {
    tally->verified_blocks++;
    tally->checksum += sum ^ ((uint64_t)op->slot << 8 | op->kind);
}

INLINE void verify(const struct call *call, const struct block *block, uintptr_t old_address,
                   uint64_t kept) {
    const struct op *op = call->op;
    uint64_t sum = 0;
    if (block->address != NULL) {
        uint64_t word = content_word(call->replay->seed, op->slot, op->sequence - 1);
        uint64_t wrong = content_check(block->address, old_address, block->stamped, kept, word,
                                       call->replay->touch, &sum);
        if (wrong != CONTENT_INTACT)
            replay_fail(call->replay, FAILURE_CONTENT, call->index, wrong);
    }
    note_verified(call->tally, op, sum);
}

INLINE void do_reallocate(const struct call *call, struct block *block) {
    uint64_t bytes = op_size(call->op);
    uintptr_t old_address = (uintptr_t)block->address;
    __asm__("" : "+r"(old_address)); /* a number: the pointer is not used after realloc */
    uint64_t begin = start_latency(call);
    void *address = realloc(block->address, bytes > 0 ? bytes : 1);
    note_latency(call, 1, begin);
    if (address == NULL)
        replay_fail(call->replay, FAILURE_NULL, call->index, 0);
    require_alignment(call, address, bytes);
    block->address = address;
    verify(call, block, old_address, block->stamped < bytes ? block->stamped : bytes);
    block->stamped = stamped_bytes(call, bytes);
    content_stamp(address, block->stamped,
                  content_word(call->replay->seed, call->op->slot, call->op->sequence),
                  call->replay->touch);
}

INLINE void do_free(const struct call *call, struct block *block) {
    verify(call, block, (uintptr_t)block->address, block->stamped);
    block->live = 0;
    uint64_t begin = start_latency(call);
    free(block->address);
    note_latency(call, 2, begin);
}

/* The explicit edge: the block's operations happen in the order of the trace, whoever does
 * them.  Only what really waits is timed. */
INLINE void wait_for_edge(const struct call *call, struct block *block) {
    if (atomic_load_explicit(&block->sequence, memory_order_acquire) == call->op->sequence)
        return;
    uint64_t begin = latency_ticks();
    wait_for_slot(&block->sequence, call->op->sequence);
    call->tally->edge_waits++;
    call->tally->edge_wait_ticks += latency_ticks() - begin;
}

INLINE void carry_out(const struct call *call, struct block *block) {
    if (call->op->kind == TRACE_FREE)
        do_free(call, block);
    else if (call->op->kind == TRACE_REALLOC)
        do_reallocate(call, block);
    else
        do_allocate(call, block);
    atomic_store_explicit(&block->sequence, call->op->sequence + 1, memory_order_release);
}

/* ---- free-running ---- */

static void perform_free_running(struct call *call, uint64_t stop) {
    struct replay *replay = call->replay;
    for (; call->index < stop; call->index++) {
        call->op = &replay->ops[call->index];
        struct block *block = &replay->blocks[call->op->slot];
        guests_advance(call->op->time_ns);
        wait_for_edge(call, block);
        atomic_store_explicit(&replay->outcome->progress, call->index, memory_order_relaxed);
        carry_out(call, block);
    }
}

/* ---- in turn ----
 *
 * This is most of what is executed under an instrument.  What programs do most, malloc and free
 * of a word or more, is done in the loop itself, all else out of line.  An emulated processor
 * is slow at branches, and at jumps to another page: there are few branches, and the loop of a
 * counted run begins a page and fits in it. */

__attribute__((noinline)) static void carry_out_rare(struct replay *replay, uint64_t index,
                                                     struct tally *tally) {
    struct call call = {replay, replay->ops + index, index, tally, NULL};
    carry_out(&call, &replay->blocks[call.op->slot]);
}

__attribute__((noinline, cold)) static void reject(struct replay *replay, uint64_t index,
                                                   const void *address) {
    struct call call = {replay, replay->ops + index, index, NULL, NULL};
    if (address == NULL)
        replay_fail(replay, FAILURE_NULL, index, 0);
    require_alignment(&call, address, op_size(call.op));
}

/* A word or more, and all of it is touched: kind and details are 0. */
INLINE bool is_plain_malloc(const struct op *op) {
    return op_bits(op) - CONTENT_WORD < OP_SIZE_LIMIT - CONTENT_WORD;
}

INLINE void plain_malloc(struct replay *replay, uint64_t index, const struct op *op,
                         struct block *block, bool has_pages) {
    uint64_t bytes = op_bits(op);
    void *address = malloc(bytes);
    uint64_t odd = (uintptr_t)address & (7 | (uint64_t)(bytes >= 2 * CONTENT_WORD) << 3);
    if (__builtin_expect((odd | (address == NULL)) != 0, 0))
        reject(replay, index, address);
    block->address = address;
    block->stamped = bytes;
    block->live = 1;
    content_stamp_words(address, bytes, content_word(replay->seed, op->slot, op->sequence),
                        replay->touch, has_pages);
}

/* An intact block of a word or more. */
INLINE bool is_plain_free(const struct replay *replay, const struct op *op,
                          const struct block *block, bool has_pages) {
    return op->kind == TRACE_FREE && block->stamped >= CONTENT_WORD &&
           content_is_whole(block->address, block->stamped,
                            content_word(replay->seed, op->slot, op->sequence - 1), replay->touch,
                            has_pages);
}

INLINE void plain_free(const struct op *op, struct block *block, struct tally *tally) {
    note_verified(tally, op, content_sum(block->address, block->stamped, block->stamped));
    block->live = 0;
    free(block->address);
}

INLINE void perform_each(struct replay *replay, uint64_t begin, uint64_t stop, struct tally *tally,
                         bool has_pages) {
    const struct op *op = replay->ops + begin;
    for (uint64_t index = begin; index < stop; index++, op++) {
        struct block *block = &replay->blocks[op->slot];
        guests_let_pass(op->time_ns);
        atomic_store_explicit(&replay->outcome->progress, index, memory_order_relaxed);
        if (is_plain_malloc(op)) {
            plain_malloc(replay, index, op, block, has_pages);
        } else if (is_plain_free(replay, op, block, has_pages)) {
            plain_free(op, block, tally);
        } else {
            carry_out_rare(replay, index, tally);
            continue;
        }
        atomic_store_explicit(&block->sequence, op->sequence + 1, memory_order_relaxed);
    }
}

__attribute__((noinline)) static void perform_with_pages(struct replay *replay, uint64_t begin,
                                                         uint64_t stop, struct tally *tally) {
    perform_each(replay, begin, stop, tally, true);
}

__attribute__((noinline, aligned(4096))) static void
perform_with_ends(struct replay *replay, uint64_t begin, uint64_t stop, struct tally *tally) {
    perform_each(replay, begin, stop, tally, false);
}

__attribute__((noinline)) static void perform_untouched(struct replay *replay, uint64_t begin,
                                                        uint64_t stop, struct tally *tally) {
    for (uint64_t index = begin; index < stop; index++) {
        guests_let_pass(replay->ops[index].time_ns);
        atomic_store_explicit(&replay->outcome->progress, index, memory_order_relaxed);
        carry_out_rare(replay, index, tally);
    }
}

static void perform_in_turn(struct replay *replay, uint64_t begin, uint64_t stop,
                            struct tally *tally) {
    if (content_has_pages(replay->touch))
        perform_with_pages(replay, begin, stop, tally);
    else if (replay->touch != TOUCH_NONE)
        perform_with_ends(replay, begin, stop, tally);
    else
        perform_untouched(replay, begin, stop, tally);
}

/* Brings the clock to a time between operations. */
static void pass_time(struct replay *replay, uint64_t time_ns) {
    if (replay->is_free_running)
        guests_advance(time_ns);
    else
        guests_let_pass(time_ns);
}

static void take_sample(struct replay *replay, uint64_t sample) {
    pass_time(replay, replay->sample_points[sample].time_ns);
    meter_sample(replay, sample);
}

void replay_turn(struct replay *replay, const struct turn *turn, struct tally *tally) {
    struct call call = {replay, NULL, turn->begin, tally, NULL};
    uint64_t row = turn->lane == 0 ? 0 : 1 + (uint64_t)replay->lanes[turn->lane].stack;
    if (replay->histograms != NULL)
        call.histograms = replay->histograms + row * LATENCY_KINDS;
    uint64_t sample = replay->takes_samples ? turn->first_sample : turn->end_sample;
    for (;; sample++) {
        bool is_rest = sample == turn->end_sample;
        uint64_t stop = is_rest ? turn->end : replay->sample_points[sample].n_ops;
        if (replay->is_free_running)
            perform_free_running(&call, stop);
        else
            perform_in_turn(replay, call.index, stop, tally);
        call.index = stop;
        if (is_rest)
            break;
        take_sample(replay, sample);
    }
    if ((turn->flags & TURN_EXITS) != 0)
        pass_time(replay, turn->exit_ns);
}

void replay_start(struct replay *replay) {
    uint64_t n_before =
        replay->plan->n_turns > 0 ? replay->turns[0].first_sample : replay->plan->n_samples;
    clock_set(replay->plan->begin_ns);
    if (replay->is_free_running)
        guests_run_freely();
    for (uint64_t sample = 0; replay->takes_samples && sample < n_before; sample++)
        take_sample(replay, sample);
}

void replay_end(struct replay *replay) {
    uint64_t n_turns = replay->plan->n_turns;
    uint64_t sample = n_turns > 0 ? replay->turns[n_turns - 1].end_sample : replay->plan->n_samples;
    for (; replay->takes_samples && sample < replay->plan->n_samples; sample++)
        take_sample(replay, sample);
    pass_time(replay, replay->plan->end_ns);
}

void replay_verify_rest(struct replay *replay) {
    struct tally unused = {0, 0, 0, 0};
    for (uint32_t slot = 0; slot < replay->plan->n_slots; slot++) {
        struct block *block = &replay->blocks[slot];
        if (!block->live)
            continue;
        struct op op = {.slot = slot, .sequence = block->sequence, .kind = TRACE_OP_COUNT};
        struct call call = {replay, &op, replay->plan->n_ops, &unused, NULL};
        verify(&call, block, (uintptr_t)block->address, block->stamped);
    }
}
