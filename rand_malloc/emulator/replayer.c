/* replayer.c - main of the child: map the plan, prepare, replay between two marks, report.
 *
 * The order matters: everything that needs memory or touches pages happens before the
 * baseline is read; after the end mark only the outcome is written, and the process ends
 * without running exit handlers.
 */
#include "replayer.h"
#include "clock.h"
#include "filter.h"
#include "harness.h"
#include "lanes.h"
#include "message.h"
#include "meter.h"
#include "options.h"
#include "perf.h"
#include "rawsys.h"
#include "replay.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Writable data is [__data_start, _end); set by the linker. */
extern char __data_start[], _end[];

/* Maps the first bytes of a descriptor; NULL on failure. */
static void *map_descriptor(int descriptor, uint64_t bytes, int protection, int flags) {
    void *address = mmap(NULL, bytes, protection, flags | MAP_POPULATE, descriptor, 0);
    return address == MAP_FAILED ? NULL : address;
}

/* 0 on failure, of which nothing can be mapped. */
static uint64_t bytes_of(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 ? (uint64_t)status.st_size : 0;
}

/* Without what is kept behind it (kept.h), which would move all that is mapped later, and so the
 * allocator's memory. */
static uint64_t bytes_of_plan(void) {
    struct plan plan;
    return pread(PLAN_FD, &plan, sizeof plan, 0) == (ssize_t)sizeof plan ? plan.file_bytes : 0;
}

/* A shared page is populated read-only: write each once. */
static void prefault_outcome(struct outcome *outcome) {
    volatile char *bytes = (volatile char *)outcome;
    for (uint64_t at = 0; at < outcome->file_bytes; at += PAGE_BYTES)
        bytes[at] = bytes[at];
}

/* The first write to a page of .data or .bss must not fall into the region. */
static void prefault_own_data(void) {
    for (uintptr_t at = (uintptr_t)__data_start; at < (uintptr_t)_end;
         at = (at | (PAGE_BYTES - 1)) + 1) {
        volatile char *byte = (volatile char *)at;
        *byte = *byte;
    }
}

static void adopt(struct replay *replay, const struct plan *plan, struct outcome *outcome) {
    *replay = (struct replay){
        .plan = plan,
        .ops = plan_at(plan, plan->ops_offset),
        .turns = plan_at(plan, plan->turns_offset),
        .lanes = plan_at(plan, plan->lanes_offset),
        .sample_points = plan_at(plan, plan->samples_offset),
        .partials = plan_at(plan, plan->partials_offset),
        .outcome = outcome,
        .samples = (struct sample *)(void *)((char *)outcome + outcome->samples_offset),
        .touch = (enum touch)outcome->orders.touch,
        .seed = outcome->orders.seed,
        .is_free_running = outcome->orders.free_running != 0,
        .takes_samples = outcome->orders.kind == RUN_MEMORY,
        .is_empty = outcome->orders.kind == RUN_EMPTY,
    };
    if (outcome->histograms_offset != 0)
        replay->histograms =
            (struct histogram *)(void *)((char *)outcome + outcome->histograms_offset);
}

static bool attach(struct replay *replay) {
    struct outcome *outcome =
        map_descriptor(OUTCOME_FD, bytes_of(OUTCOME_FD), PROT_READ | PROT_WRITE, MAP_SHARED);
    const struct plan *plan = map_descriptor(PLAN_FD, bytes_of_plan(), PROT_READ, MAP_PRIVATE);
    if (outcome == NULL || plan == NULL)
        return false;
    prefault_outcome(outcome);
    adopt(replay, plan, outcome);
    return true;
}

/* Which file the allocator's malloc comes from: proves that the preload took effect. */
static void note_allocator(struct outcome *outcome) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, "malloc");
    if (address != NULL && dladdr(address, &info) != 0 && info.dli_fname != NULL)
        strncpy(outcome->malloc_from, info.dli_fname, sizeof outcome->malloc_from - 1);
}

static void prepare(struct replay *replay) {
    uint64_t n_slots = replay->plan->n_slots;
    replay->blocks = map_populated(replay, n_slots * sizeof *replay->blocks, "map the slot table");
    replay->stacks = map_populated(replay, (uint64_t)replay->plan->n_stacks * STACK_BYTES,
                                   "map the thread stacks");
    lanes_prepare(replay);
}

static void begin_region(struct replay *replay) {
    const struct orders *orders = &replay->outcome->orders;
    bool is_native = orders->kind == RUN_MEMORY || orders->kind == RUN_TIME;
    if (is_native) {
        meter_open(replay);
        meter_prefault();
        prefault_own_data();
    }
    if (orders->traced)
        filter_install(replay);
    if (orders->use_perf)
        perf_open(replay);
    atomic_store(&replay->outcome->stage, STAGE_RUNNING);
    if (is_native)
        meter_begin_heap(replay);
    if (orders->kind != RUN_INSIDE)
        raw_syscall3(MARK_BEGIN, 0, 0, 0);
    if (is_native)
        meter_begin_time();
    if (orders->use_perf)
        perf_begin();
}

static void end_region(struct replay *replay) {
    const struct orders *orders = &replay->outcome->orders;
    bool is_native = orders->kind == RUN_MEMORY || orders->kind == RUN_TIME;
    if (orders->use_perf)
        perf_end(replay->outcome);
    if (is_native)
        meter_end_time(replay->outcome);
    if (orders->kind != RUN_INSIDE)
        raw_syscall3(MARK_END, 0, 0, 0);
    if (is_native)
        meter_end_heap(replay);
}

/* Replays between the marks; the outcome is then complete but for its stage. */
static void perform(struct replay *replay) {
    struct tally total = {0, 0, 0, 0};
    clock_set_cpus(replay->outcome->orders.cpus);
    note_allocator(replay->outcome);
    atomic_store(&replay->outcome->stage, STAGE_READY);
    prepare(replay);
    begin_region(replay);
    replay_start(replay);
    if (!replay->is_empty) {
        lanes_run(replay);
        replay_end(replay);
    }
    end_region(replay);
    lanes_total(replay, &total);
    if (replay->outcome->orders.kind == RUN_MEMORY) /* some instruments count what comes after */
        replay_verify_rest(replay);
    replay->outcome->checksum = total.checksum;
    replay->outcome->verified_blocks = total.verified_blocks;
    replay->outcome->edge_waits = total.edge_waits;
    replay->outcome->edge_wait_ticks = total.edge_wait_ticks;
}

int replayer_main(void) {
    static struct replay replay;
    if (!attach(&replay))
        return 1;
    perform(&replay);
    atomic_store(&replay.outcome->stage, STAGE_DONE);
    raw_syscall3(SYS_exit_group, 0, 0, 0);
    return 0;
}

int replayer_inside(const char *path, bool is_empty) {
    static struct replay replay;
    static struct outcome outcome;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    const struct plan *plan =
        descriptor < 0 ? NULL
                       : map_descriptor(descriptor, bytes_of(descriptor), PROT_READ, MAP_PRIVATE);
    if (plan == NULL)
        return complain(EXIT_TRACE, path, "%m");
    bool is_whole = lseek(descriptor, 0, SEEK_END) >= (off_t)sizeof *plan &&
                    lseek(descriptor, 0, SEEK_END) == (off_t)plan->file_bytes;
    if (plan->magic != PLAN_MAGIC || !is_whole)
        return complain(EXIT_TRACE, path, "is no plan of this rand_malloc; see --save-plan");
    outcome.orders =
        (struct orders){.kind = RUN_INSIDE, .touch = plan->touch, .cpus = 1, .seed = plan->seed};
    adopt(&replay, plan, &outcome);
    replay.is_empty = is_empty;
    perform(&replay);
    dprintf(STDOUT_FILENO, "replay %016" PRIx64 " %" PRIu64 "\n", outcome.checksum,
            outcome.verified_blocks);
    return EXIT_OK;
}
