/* cxx.c - C++ new and delete in all their forms, written in C.
 *
 * The functions have the mangled names of the Itanium C++ ABI (size_t is
 * unsigned long on all supported targets: "m").  Throwing is left to the C++
 * library of the program, found through weak symbols: a C program that
 * preloads exgen needs none.  Compiled with -fexceptions so that bad_alloc can
 * pass through.
 *
 * Source: ISO C++ [new.delete.single] to [new.delete.array] for the rules.
 */
#include <errno.h>

#include "exgen.h"
#include "fast.h"

#define EXPORT __attribute__((visibility("default")))

typedef void (*new_handler)(void);

/* std::get_new_handler() and std::__throw_bad_alloc() of the C++ library. */
extern new_handler std_get_new_handler(void) __asm__("_ZSt15get_new_handlerv")
    __attribute__((weak));
extern _Noreturn void std_throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv")
    __attribute__((weak));

/* Call the program's handler; false if there is none. */
static bool call_new_handler(void) {
    new_handler handler = std_get_new_handler != NULL ? std_get_new_handler() : NULL;
    if (handler == NULL)
        return false;
    handler();
    return true;
}

/* A block by any means: ask the program's handler until it helps or gives up. */
static NOINLINE void *new_slowly(size_t size, size_t alignment, bool may_throw) {
    void *block;
    while ((block = exgen_memalign(alignment, size)) == NULL) {
        if (!call_new_handler()) {
            if (!may_throw)
                return NULL;
            if (std_throw_bad_alloc == NULL)
                fatal("out of memory in operator new, and no C++ library to throw bad_alloc", NULL);
            std_throw_bad_alloc();
        }
    }
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
        return likely(block != NULL) ? block : new_slowly(size, 1, true);                          \
    }                                                                                              \
    NEW(_Zn##letter##mRKSt9nothrow_t, const void *nothrow) {                                       \
        (void)nothrow;                                                                             \
        void *block = allocate_fast(size);                                                         \
        return likely(block != NULL) ? block : new_slowly(size, 1, false);                         \
    }                                                                                              \
    NEW(_Zn##letter##mSt11align_val_t, size_t alignment) {                                         \
        return new_slowly(size, alignment, true);                                                  \
    }                                                                                              \
    NEW(_Zn##letter##mSt11align_val_tRKSt9nothrow_t, size_t alignment, const void *nothrow) {      \
        (void)nothrow;                                                                             \
        return new_slowly(size, alignment, false);                                                 \
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
