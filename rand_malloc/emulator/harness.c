/* harness.c - memory and failures of the replayer; see harness.h. */
#include "harness.h"
#include "rawsys.h"

#include <sys/mman.h>
#include <sys/syscall.h>

_Noreturn static void die(void) {
    for (;;)
        raw_syscall3(SYS_exit_group, 1, 0, 0);
}

_Noreturn void replay_fail(struct replay *replay, enum failure_kind kind, uint64_t op,
                           uint64_t detail) {
    struct failure *failure = &replay->outcome->failure;
    failure->op = op;
    failure->detail = detail;
    failure->kind = kind;
    atomic_store(&replay->outcome->stage, STAGE_FAILED);
    die();
}

_Noreturn void setup_fail(struct replay *replay, const char *step, long error) {
    struct failure *failure = &replay->outcome->failure;
    for (size_t i = 0; i + 1 < sizeof failure->what && step[i] != '\0'; i++)
        failure->what[i] = step[i];
    replay_fail(replay, FAILURE_SETUP, 0, (uint64_t)(error < 0 ? -error : error));
}

void *map_populated(struct replay *replay, uint64_t bytes, const char *what) {
    uint64_t n_pages = bytes > 0 ? (bytes + PAGE_BYTES - 1) / PAGE_BYTES : 1;
    long address = raw_syscall(SYS_mmap, 0, (long)(n_pages * PAGE_BYTES), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address < 0 && address > -4096)
        setup_fail(replay, what, address);
    /* Never huge pages: they would take what the allocator is due, and differ with their number. */
    raw_syscall3(SYS_madvise, address, (long)(n_pages * PAGE_BYTES), MADV_NOHUGEPAGE);
    for (uint64_t page = 0; page < n_pages; page++)
        ((volatile char *)address)[page * PAGE_BYTES] = 0;
    replay->harness_bytes += n_pages * PAGE_BYTES;
    return (void *)address;
}
