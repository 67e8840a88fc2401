/* filter.c - builds and installs the seccomp filter; see filter.h. */
#include "filter.h"
#include "rawsys.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define TRACE(call) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | (call))
#define IF_NUMBER(number, otherwise_skip)                                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, (otherwise_skip))

void filter_install(struct replay *replay) {
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        IF_NUMBER(SYS_brk, 1),
        TRACE(TRACED_BRK),
        IF_NUMBER(SYS_mmap, 1),
        TRACE(TRACED_MMAP),
        IF_NUMBER(SYS_munmap, 1),
        TRACE(TRACED_MUNMAP),
        IF_NUMBER(SYS_mremap, 1),
        TRACE(TRACED_MREMAP),
        IF_NUMBER(SYS_mprotect, 1),
        TRACE(TRACED_MPROTECT),
        IF_NUMBER(MARK_BEGIN, 1),
        TRACE(TRACED_MARK_BEGIN),
        IF_NUMBER(MARK_END, 1),
        TRACE(TRACED_MARK_END),
        IF_NUMBER(SYS_madvise, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        IF_NUMBER(MADV_FREE, 1),
        TRACE(TRACED_LAZY_FREE),
        TRACE(TRACED_MADVISE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    static struct sock_fprog program = {sizeof code / sizeof code[0], code};
    raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
    long error = raw_syscall3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                              (long)&program);
    if (error != 0)
        setup_fail(replay, "install the seccomp filter", error);
}
