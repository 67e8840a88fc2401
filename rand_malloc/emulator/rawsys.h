/* rawsys.h - system calls from the emulator's own text.
 *
 * The replayer's harness must not run instructions of libc inside the measured
 * region: what runs outside of the executable's text is counted as the
 * allocator's.  It must not set errno or be interposed either.  x86-64 Linux;
 * calling convention: System V ABI, AMD64 supplement, appendix A.2.1.
 */
#ifndef RAND_MALLOC_RAWSYS_H
#define RAND_MALLOC_RAWSYS_H

#include <stdint.h>

#ifndef __x86_64__
#error "rand_malloc knows the system call convention of x86-64 only"
#endif

/* Returns the kernel's answer: negative errno on failure. */
static inline long raw_syscall(long number, long a1, long a2, long a3, long a4, long a5, long a6) {
    long result;
    register long r10 __asm__("r10") = a4;
    register long r8 __asm__("r8") = a5;
    register long r9 __asm__("r9") = a6;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a1), "S"(a2), "d"(a3), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long raw_syscall3(long number, long a1, long a2, long a3) {
    return raw_syscall(number, a1, a2, a3, 0, 0, 0);
}

#endif
