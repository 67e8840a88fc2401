/* wait.c - waiting for other threads; see wait.h. */
#include "wait.h"
#include "own_text.h"
#include "rawsys.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#define SPINS 200 /* about 10 us of polling before the first yield */

WAITING void wait_while(_Atomic uint32_t *word, uint32_t value) {
    while (atomic_load_explicit(word, memory_order_acquire) == value)
        raw_syscall(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, value, 0, 0, 0);
}

WAITING void wake_one(_Atomic uint32_t *word) {
    raw_syscall(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

WAITING void wait_for_exit(_Atomic uint32_t *tid) {
    while (atomic_load_explicit(tid, memory_order_acquire) == 0)
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    long process = raw_syscall3(SYS_getpid, 0, 0, 0);
    while (raw_syscall3(SYS_tgkill, process, (long)*tid, 0) != -ESRCH)
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
}

WAITING void spin_for_slot(_Atomic uint32_t *next, uint32_t sequence) {
    for (unsigned spin = 0; atomic_load_explicit(next, memory_order_acquire) != sequence; spin++) {
        if (spin < SPINS)
            __builtin_ia32_pause();
        else
            raw_syscall3(SYS_sched_yield, 0, 0, 0);
    }
}
