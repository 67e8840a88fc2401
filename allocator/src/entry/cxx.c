/* cxx.c - C++ new and delete, written in C.
 *
 * The functions have the mangled names of the Itanium C++ ABI (size_t is
 * unsigned long on all supported targets: "m").  Throwing is left to the C++
 * library of the program, found through weak symbols: a C program that
 * preloads exgen needs none, and where it loads one later, loaded_symbol finds it.
 * In the archives the symbols are not weak, or nothing might bring them into the
 * program; only a program that uses new takes this file out of them.
 * Compiled with -fexceptions so that bad_alloc can pass through.
 *
 * Source: ISO C++ [new.delete.single] to [new.delete.array] for the rules.
 */
#include <errno.h>

#include "entry/fast.h"
#include "exgen.h"

#if EXGEN_SHARED
#define OPTIONAL __attribute__((weak))
#else
#define OPTIONAL
#endif

typedef void (*new_handler)(void);

/* std::get_new_handler() and std::__throw_bad_alloc() of the C++ library. */
extern new_handler std_get_new_handler(void) __asm__("_ZSt15get_new_handlerv") OPTIONAL;
extern _Noreturn void std_throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") OPTIONAL;

/* In shared libraries: what a C++ library that was loaded later defines (shared.c). */
extern void *loaded_symbol(const char *name) __attribute__((weak, visibility("hidden")));

static void *find_symbol(void *linked, const char *name) {
    return linked != NULL || loaded_symbol == NULL ? linked : loaded_symbol(name);
}

/* Call the program's handler; false if there is none. */
static bool call_new_handler(void) {
    new_handler (*get)(void) =
        (new_handler(*)(void))find_symbol((void *)std_get_new_handler, "_ZSt15get_new_handlerv");
    new_handler handler = get != NULL ? get() : NULL;
    if (handler == NULL)
        return false;
    handler();
    return true;
}

static _Noreturn void throw_bad_alloc(void) {
    void (*throw)(void) =
        (void (*)(void))find_symbol((void *)std_throw_bad_alloc, "_ZSt17__throw_bad_allocv");
    if (throw != NULL)
        throw();
    fatal("out of memory in operator new, and no C++ library to throw bad_alloc", NULL);
}

/* Ask the program's handler until it helps or gives up. */
COLD static void *new_by_handler(size_t size, size_t alignment) {
    void *block;
    do
        if (!call_new_handler())
            throw_bad_alloc();
    while ((block = exgen_memalign(alignment, size)) == NULL);
    return block;
}

static NOINLINE void *new_refilled(size_t size, size_t class) {
    void *block = allocate_refilled(size, class);
    return likely(block != NULL) ? block : new_by_handler(size, 1);
}

static NOINLINE void *new_slowly(size_t size) {
    void *block = allocate_slowly(size);
    return likely(block != NULL) ? block : new_by_handler(size, 1);
}

/* The forms that a program replaces; the others lead here, see cxx_arrays.c.  Weak, so that a
 * program with its own in place of one of them can take the others out of the archive; under names
 * of their own as well, to know them by. */
#define REPLACEABLE __attribute__((weak, visibility("default")))

/* new */
HIDDEN void *new_here(size_t size);
void *new_here(size_t size) {
    return allocate_or(size, new_refilled, new_slowly);
}

extern __typeof__(new_here) _Znwm __attribute__((alias("new_here"))) REPLACEABLE;

HIDDEN void *new_aligned_here(size_t size, size_t alignment);
void *new_aligned_here(size_t size, size_t alignment) {
    void *block = exgen_memalign(alignment, size);
    return likely(block != NULL) ? block : new_by_handler(size, alignment);
}

extern __typeof__(new_aligned_here) _ZnwmSt11align_val_t __attribute__((alias("new_aligned_here")))
REPLACEABLE;

/* delete */
HIDDEN void delete_here(void *block);
void delete_here(void *block) {
    deallocate(block);
}

extern __typeof__(delete_here) _ZdlPv __attribute__((alias("delete_here"))) REPLACEABLE;

HIDDEN void delete_aligned_here(void *block, size_t alignment);
void delete_aligned_here(void *block, size_t alignment) {
    (void)alignment;
    deallocate(block);
}

extern __typeof__(delete_aligned_here) _ZdlPvSt11align_val_t
    __attribute__((alias("delete_aligned_here"))) REPLACEABLE;
