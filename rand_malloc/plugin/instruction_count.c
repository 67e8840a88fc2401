/* instruction_count.c - a TCG plugin that counts guest instructions between two marks.
 *
 * Every executed translation block adds its number of instructions to a counter.  While there is
 * one virtual processor, the translated code does so itself, to a counter that is shared.  Shared
 * counters lose counts when threads take turns: from the second processor on, each has its own,
 * and blocks call us.  We have qemu forget what it has translated then: it does not by itself where
 * the process has mapped shared memory before, as the emulator has.
 * Counts are kept apart by where the block lies: the emulator's own text, its waiting
 * loops, or anywhere else (the allocator and libc).  Own text is counted on request only:
 * half of all blocks lie there.
 *
 * A `rep` string instruction is one instruction, as in hardware: TCG runs each iteration
 * as a new block that begins with it, so such a block counts one less when the block
 * before it ended with the same instruction.
 *
 * Nothing is instrumented before the first mark, since half of all blocks of a short run are those
 * of its start; there qemu forgets what it has translated (qemu_plugin_reset).
 *
 * Arguments, all hexadecimal: fd (result, struct plugin_counts), begin and end (numbers of the
 * marking system calls), own_begin, own_end, wait_begin, wait_end (addresses), count_own (0 or 1).
 * The interface is declared here by hand: Debian packages no header.  Documentation:
 * https://www.qemu.org/docs/master/devel/tcg-plugins.html
 * Limits: a block left early by a fault counts whole; at most MAX_PROCESSORS threads.  Later qemus
 * have other inline counters; there every block calls us.
 */
#include "counts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED       __attribute__((visibility("default")))
#define MAX_PROCESSORS 65536u
#define CB_NO_REGS     0 /* QEMU_PLUGIN_CB_NO_REGS */
#define INLINE_ADD_U64 0 /* QEMU_PLUGIN_INLINE_ADD_U64 */

/* What this file uses of the plugin interface; the same in all versions up to now. */
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*callback)(plugin_id id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
                                          void (*callback)(unsigned cpu, void *data), int flags,
                                          void *data);
/* Not in all versions. */
__attribute__((weak)) void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb,
                                                                    int operation, void *counter,
                                                                    uint64_t addend);
__attribute__((weak)) void qemu_plugin_reset(plugin_id id, void (*callback)(plugin_id id));
void qemu_plugin_register_vcpu_init_cb(plugin_id id, void (*callback)(plugin_id id, unsigned cpu));
void qemu_plugin_register_vcpu_syscall_cb(plugin_id id,
                                          void (*callback)(plugin_id id, unsigned cpu,
                                                           int64_t number, uint64_t a1, uint64_t a2,
                                                           uint64_t a3, uint64_t a4, uint64_t a5,
                                                           uint64_t a6, uint64_t a7, uint64_t a8));

EXPORTED extern const int qemu_plugin_version;
const int qemu_plugin_version = PLUGIN_INTERFACE;
EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

enum place {
    PLACE_OUTSIDE = 0,
    PLACE_OWN,
    PLACE_WAITING,
    N_PLACES = 4 /* a power of two: numbers are packed with it */
};

/* One translation block; lives as long as the process. */
struct block {
    uint32_t n_instructions;
    uint32_t place;     /* enum place */
    uint64_t first_rep; /* address of the first instruction if it repeats, else 0 */
    uint64_t last_rep;  /* the same for the last one */
};

/* One virtual processor; its own cache line. */
struct processor {
    _Alignas(64) uint64_t counts[N_PLACES];
    uint64_t last_rep; /* of the block before */
    uint64_t n_inline; /* counted inline when that block had run */
};

static struct {
    bool is_open;     /* between the marks */
    bool is_parallel; /* there has been a second processor */
    uint64_t fd;
    uint64_t begin, end; /* numbers of the marking system calls */
    uint64_t own_begin, own_end, wait_begin, wait_end;
    uint64_t count_own;
    uint64_t counted_inline[N_PLACES]; /* since the process began */
    uint64_t inline_at_begin[N_PLACES];
    struct processor processors[MAX_PROCESSORS];
} counter;

static uint64_t n_inline(void) {
    uint64_t total = 0;
    for (int place = 0; place < N_PLACES; place++)
        total += counter.counted_inline[place];
    return total;
}

/* Is the block the next iteration of what the block before it on this processor ended with?
 * A block that was counted inline in between did not come here. */
static bool is_iteration(const struct block *block, const struct processor *processor) {
    return block->first_rep != 0 && block->first_rep == processor->last_rep &&
           processor->n_inline == n_inline();
}

static void on_block(unsigned cpu, void *data) {
    const struct block *block = data;
    struct processor *processor = &counter.processors[cpu % MAX_PROCESSORS];
    uint64_t n_instructions = block->n_instructions;
    if (!counter.is_open)
        return;
    if (is_iteration(block, processor))
        n_instructions--;
    processor->last_rep = block->last_rep;
    processor->n_inline = n_inline();
    processor->counts[block->place] += n_instructions;
}

/* The same for a block without a rep instruction, which most are: all of it is in the pointer. */
static void on_plain_block(unsigned cpu, void *data) {
    uintptr_t packed = (uintptr_t)data;
    struct processor *processor = &counter.processors[cpu % MAX_PROCESSORS];
    if (!counter.is_open)
        return;
    processor->last_rep = 0;
    processor->counts[packed % N_PLACES] += packed / N_PLACES;
}

static enum place place_of(uint64_t address) {
    if (address >= counter.wait_begin && address < counter.wait_end)
        return PLACE_WAITING;
    if (address >= counter.own_begin && address < counter.own_end)
        return PLACE_OWN;
    return PLACE_OUTSIDE;
}

/* Prefixes, of which one is F2 or F3, then MOVS, CMPS, STOS, LODS or SCAS (Intel SDM
 * volume 2, REP). */
static bool is_repeated(const struct qemu_plugin_insn *insn) {
    const unsigned char *bytes = qemu_plugin_insn_haddr(insn);
    size_t size = qemu_plugin_insn_size(insn);
    bool has_rep = false;
    for (size_t i = 0; bytes != NULL && i < size; i++) {
        unsigned char byte = bytes[i];
        if (byte == 0xf2 || byte == 0xf3)
            has_rep = true;
        else if (byte != 0x66 && byte != 0x67 && (byte & 0xf0) != 0x40)
            return has_rep && i + 1 == size && byte >= 0xa4 && byte <= 0xaf && byte != 0xa8 &&
                   byte != 0xa9;
    }
    return false;
}

static uint64_t repeated_address(const struct qemu_plugin_insn *insn) {
    return is_repeated(insn) ? qemu_plugin_insn_vaddr(insn) : 0;
}

static bool is_plain(const struct block *block) {
    return block->first_rep == 0 && block->last_rep == 0;
}

static void count_plain(struct qemu_plugin_tb *tb, const struct block *block) {
    if (!counter.is_parallel && qemu_plugin_register_vcpu_tb_exec_inline != NULL &&
        qemu_plugin_reset != NULL)
        qemu_plugin_register_vcpu_tb_exec_inline(
            tb, INLINE_ADD_U64, &counter.counted_inline[block->place], block->n_instructions);
    else
        qemu_plugin_register_vcpu_tb_exec_cb(
            tb, on_plain_block, CB_NO_REGS,
            (void *)((uintptr_t)block->n_instructions * N_PLACES + block->place));
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb) {
    size_t n_instructions = qemu_plugin_tb_n_insns(tb);
    enum place place = place_of(qemu_plugin_tb_vaddr(tb));
    (void)id;
    /* After a rep instruction that is not ours comes a block that is not ours either, so
     * last_rep does not miss what is left out here. */
    if (place != PLACE_OUTSIDE && counter.count_own == 0)
        return;
    const struct block found = {
        .n_instructions = (uint32_t)n_instructions,
        .place = place,
        .first_rep = repeated_address(qemu_plugin_tb_get_insn(tb, 0)),
        .last_rep = repeated_address(qemu_plugin_tb_get_insn(tb, n_instructions - 1)),
    };
    if (is_plain(&found)) {
        count_plain(tb, &found);
        return;
    }
    struct block *block = malloc(sizeof *block);
    if (block == NULL)
        abort();
    *block = found;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, CB_NO_REGS, block);
}

static uint64_t counted(enum place place) {
    uint64_t total = counter.counted_inline[place] - counter.inline_at_begin[place];
    for (unsigned cpu = 0; cpu < MAX_PROCESSORS; cpu++)
        total += counter.processors[cpu].counts[place];
    return total;
}

static void write_counts(void) {
    const struct plugin_counts total = {
        .magic = PLUGIN_COUNTS_MAGIC,
        .outside = counted(PLACE_OUTSIDE),
        .own = counted(PLACE_OWN),
        .waiting = counted(PLACE_WAITING),
    };
    if (pwrite((int)counter.fd, &total, sizeof total, 0) != (ssize_t)sizeof total)
        abort();
}

static void open_region(void) {
    counter.is_open = true;
    memcpy(counter.inline_at_begin, counter.counted_inline, sizeof counter.counted_inline);
}

static void on_syscall(plugin_id id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                       uint64_t a8);

static void on_processor(plugin_id id, unsigned cpu);

/* qemu calls these before the processor that made the mark, or the second processor, goes on, with
 * nothing translated and nothing registered. */
static void register_all(plugin_id id) {
    qemu_plugin_register_vcpu_init_cb(id, on_processor);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
}

static void on_reset(plugin_id id) {
    open_region();
    register_all(id);
}

/* Until that the new processor runs alone: the other one waits for it. */
static void on_processor(plugin_id id, unsigned cpu) {
    if (cpu == 0 || counter.is_parallel)
        return;
    counter.is_parallel = true;
    if (counter.is_open && qemu_plugin_reset != NULL)
        qemu_plugin_reset(id, register_all);
}

static void on_syscall(plugin_id id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                       uint64_t a8) {
    (void)cpu, (void)a1, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if ((uint64_t)number == counter.begin && qemu_plugin_reset != NULL)
        qemu_plugin_reset(id, on_reset);
    else if ((uint64_t)number == counter.begin)
        open_region();
    if ((uint64_t)number == counter.end && counter.is_open) {
        counter.is_open = false;
        write_counts();
    }
}

/* "name=value", a hexadecimal value, into the setting of that name; false if there is none. */
static bool set_argument(const char *argument) {
    const struct {
        const char *name;
        uint64_t *target;
    } SETTINGS[] = {{"fd=", &counter.fd},
                    {"begin=", &counter.begin},
                    {"end=", &counter.end},
                    {"own_begin=", &counter.own_begin},
                    {"own_end=", &counter.own_end},
                    {"wait_begin=", &counter.wait_begin},
                    {"wait_end=", &counter.wait_end},
                    {"count_own=", &counter.count_own}};
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i++) {
        size_t length = strlen(SETTINGS[i].name);
        if (strncmp(argument, SETTINGS[i].name, length) == 0) {
            *SETTINGS[i].target = strtoull(argument + length, NULL, 16);
            return true;
        }
    }
    return false;
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++)
        if (!set_argument(argv[i]))
            return 1;
    if (counter.fd == 0)
        return 1;
    qemu_plugin_register_vcpu_init_cb(id, on_processor);
    if (qemu_plugin_reset == NULL)
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    return 0;
}
