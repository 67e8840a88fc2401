/* filter.h - which system calls of the replayer stop for the tracer.
 *
 * A seccomp filter (seccomp(2), SECCOMP_RET_TRACE) stops the memory system calls and the
 * end mark only; everything else runs at full speed.  The data word of the stop names
 * the call, so the tracer needs no register read.
 */
#ifndef RAND_MALLOC_FILTER_H
#define RAND_MALLOC_FILTER_H

#include "harness.h"

/* Data word of a stop; the classes before SYSCALL_CLASSES are counted. */
enum traced_call {
    TRACED_BRK = 0,
    TRACED_MMAP,
    TRACED_MUNMAP,
    TRACED_MADVISE,
    TRACED_MREMAP,
    TRACED_MPROTECT,
    SYSCALL_CLASSES,
    TRACED_LAZY_FREE = SYSCALL_CLASSES, /* madvise(MADV_FREE): counts as madvise */
    TRACED_MARK_BEGIN,
    TRACED_MARK_END,
};

void filter_install(struct replay *replay);

#endif
