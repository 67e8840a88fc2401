/* platform.h - what every file of exgen may assume about compiler and build.
 *
 * The two libraries come from one source: EXGEN_THREADS is 1 in libexgen.so
 * and 0 in libexgen-st.so.  EXGEN_CHECKED is 0 in release builds, 1 for cheap
 * assertions, 2 to run the heap walkers as well.  Both are always defined (by
 * CMake) and are used through the constants below, in plain `if`s, so that
 * every branch is compiled and type-checked in every build.
 */
#ifndef EXGEN_PLATFORM_H
#define EXGEN_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x)     __builtin_expect(!!(x), 1)
#define unlikely(x)   __builtin_expect(!!(x), 0)
#define COLD          __attribute__((cold, noinline))
#define NOINLINE      __attribute__((noinline))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define CACHE_LINE    64
/* On extern data of the common paths: found without a look into the global offset table. */
#define HIDDEN __attribute__((visibility("hidden")))

/* Addresses that Linux gives to programs unless asked for more are below 2^ADDRESS_BITS. */
#if defined(__x86_64__)
#define ADDRESS_BITS 47
#else
#define ADDRESS_BITS 48
#endif

enum {
    BLOCK_ALIGNMENT = 16 /* bytes, of every block */
};

enum {
    THREADS = EXGEN_THREADS,
    CHECKED = EXGEN_CHECKED
};

/* Print "exgen: <what>" and, unless it is NULL, the address; then abort. */
COLD __attribute__((noreturn)) void fatal(const char *what, const void *address);

COLD __attribute__((noreturn)) void assert_failed(const char *condition, const char *file,
                                                  int line);

/* Cheap conditions; compiled in every build, kept when CHECKED >= 1. */
#define ASSERT(c)                                                                                  \
    do {                                                                                           \
        if (CHECKED >= 1 && unlikely(!(c)))                                                        \
            assert_failed(#c, __FILE__, __LINE__);                                                 \
    } while (0)

/* Walkers over whole structures; kept when CHECKED >= 2. */
#define ASSERT_FULL(c)                                                                             \
    do {                                                                                           \
        if (CHECKED >= 2 && unlikely(!(c)))                                                        \
            assert_failed(#c, __FILE__, __LINE__);                                                 \
    } while (0)

ALWAYS_INLINE uintptr_t round_down(uintptr_t n, uintptr_t power_of_two) {
    return n & ~(power_of_two - 1);
}

ALWAYS_INLINE uintptr_t round_up(uintptr_t n, uintptr_t power_of_two) {
    return (n + power_of_two - 1) & ~(power_of_two - 1);
}

ALWAYS_INLINE bool is_power_of_two(uintptr_t n) {
    return n != 0 && (n & (n - 1)) == 0;
}

/* Position of the highest set bit; n > 0.  log2_floor(1) == 0, log2_floor(5) == 2. */
ALWAYS_INLINE unsigned log2_floor(uint64_t n) {
    return 63u - (unsigned)__builtin_clzll(n);
}

ALWAYS_INLINE unsigned log2_ceil(uint64_t n) {
    return n <= 1 ? 0 : log2_floor(n - 1) + 1;
}

#endif
