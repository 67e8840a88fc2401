/* cxx.c - C++ new and delete in all their forms, written in C.
 *
 * The functions have the mangled names of the Itanium C++ ABI (size_t is
 * unsigned long on all supported targets: "m").  Throwing is left to the C++
 * library of the program, found through weak symbols: a C program that
 * preloads exgen needs none, and where it loads one later, loaded_symbol finds it.
 * In the archives the symbols are not weak, or nothing might bring them into the
 * program; only a program that uses new takes this file out of them.
 * Compiled with -fexceptions so that bad_alloc can pass through.  The forms of new
 * with nothrow stay the C++ library's, which call the others and catch what they, or
 * the program's handler, throw: no C function could.
 *
 * Source: ISO C++ [new.delete.single] to [new.delete.array] for the rules.
 */
#include <errno.h>

#include "entry/fast.h"
#include "exgen.h"

#define EXPORT __attribute__((visibility("default")))

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

/* A block by any means: ask the program's handler until it helps or gives up. */
static NOINLINE void *new_slowly(size_t size, size_t alignment) {
    void *block;
    while ((block = exgen_memalign(alignment, size)) == NULL)
        if (!call_new_handler())
            throw_bad_alloc();
    return block;
}

#define NEW(name, ...)                                                                             \
    EXPORT void *name(size_t size, ##__VA_ARGS__);                                                 \
    EXPORT void *name(size_t size, ##__VA_ARGS__)

#define DELETE(name, ...)                                                                          \
    EXPORT void name(void *block, ##__VA_ARGS__);                                                  \
    EXPORT void name(void *block, ##__VA_ARGS__)

#define NEW_FORMS(letter)                                                                          \
    NEW(_Zn##letter##m) {                                                                          \
        void *block = allocate_fast(size);                                                         \
        return likely(block != NULL) ? block : new_slowly(size, 1);                                \
    }                                                                                              \
    NEW(_Zn##letter##mSt11align_val_t, size_t alignment) {                                         \
        return new_slowly(size, alignment);                                                        \
    }

#define DELETE_FORMS(letter)                                                                       \
    DELETE(_Zd##letter##Pv) {                                                                      \
        deallocate(block);                                                                         \
    }                                                                                              \
    DELETE(_Zd##letter##Pvm, size_t size) {                                                        \
        deallocate_sized(block, size);                                                             \
    }                                                                                              \
    DELETE(_Zd##letter##PvRKSt9nothrow_t, const void *nothrow) {                                   \
        (void)nothrow;                                                                             \
        deallocate(block);                                                                         \
    }                                                                                              \
    DELETE(_Zd##letter##PvSt11align_val_t, size_t alignment) {                                     \
        (void)alignment;                                                                           \
        deallocate(block);                                                                         \
    }                                                                                              \
    DELETE(_Zd##letter##PvmSt11align_val_t, size_t size, size_t alignment) {                       \
        (void)alignment;                                                                           \
        deallocate_sized(block, size);                                                             \
    }                                                                                              \
    DELETE(_Zd##letter##PvSt11align_val_tRKSt9nothrow_t, size_t alignment, const void *nothrow) {  \
        (void)alignment;                                                                           \
        (void)nothrow;                                                                             \
        deallocate(block);                                                                         \
    }

NEW_FORMS(w)    /* new */
NEW_FORMS(a)    /* new[] */
DELETE_FORMS(l) /* delete */
DELETE_FORMS(a) /* delete[] */
