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
#include "platform.h"

#define EXPORT __attribute__((visibility("default")))

typedef void (*new_handler)(void);

/* std::get_new_handler() and std::__throw_bad_alloc() of the C++ library. */
extern new_handler std_get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern _Noreturn void std_throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

/* Call the program's handler; false if there is none. */
static bool call_new_handler(void)
{
    new_handler handler = std_get_new_handler != NULL ? std_get_new_handler() : NULL;
    if (handler == NULL)
        return false;
    handler();
    return true;
}

COLD static void *retry(size_t size, size_t alignment, bool may_throw)
{
    void *block = NULL;
    while (block == NULL) {
        if (!call_new_handler()) {
            if (!may_throw)
                return NULL;
            if (std_throw_bad_alloc == NULL)
                fatal("out of memory in operator new, and no C++ library to throw bad_alloc", NULL);
            std_throw_bad_alloc();
        }
        block = exgen_memalign(alignment, size);
    }
    return block;
}

#define NEW(name, ...)                                                              \
    EXPORT void *name(size_t size, ##__VA_ARGS__);                                  \
    EXPORT void *name(size_t size, ##__VA_ARGS__)

#define DELETE(name, ...)                                                           \
    EXPORT void name(void *block, ##__VA_ARGS__);                                   \
    EXPORT void name(void *block, ##__VA_ARGS__)

#define NEW_FORMS(letter)                                                           \
    NEW(_Zn##letter##m)                                                             \
    {                                                                               \
        void *block = exgen_malloc(size);                                           \
        return likely(block != NULL) ? block : retry(size, 1, true);                \
    }                                                                               \
    NEW(_Zn##letter##mRKSt9nothrow_t, const void *nothrow)                          \
    {                                                                               \
        (void)nothrow;                                                              \
        void *block = exgen_malloc(size);                                           \
        return likely(block != NULL) ? block : retry(size, 1, false);               \
    }                                                                               \
    NEW(_Zn##letter##mSt11align_val_t, size_t alignment)                            \
    {                                                                               \
        void *block = exgen_memalign(alignment, size);                              \
        return likely(block != NULL) ? block : retry(size, alignment, true);        \
    }                                                                               \
    NEW(_Zn##letter##mSt11align_val_tRKSt9nothrow_t, size_t alignment, const void *nothrow) \
    {                                                                               \
        (void)nothrow;                                                              \
        void *block = exgen_memalign(alignment, size);                              \
        return likely(block != NULL) ? block : retry(size, alignment, false);       \
    }

#define DELETE_FORMS(letter)                                                        \
    DELETE(_Zd##letter##Pv)                                                         \
    {                                                                               \
        exgen_free(block);                                                          \
    }                                                                               \
    DELETE(_Zd##letter##Pvm, size_t size)                                           \
    {                                                                               \
        exgen_free_sized(block, size);                                              \
    }                                                                               \
    DELETE(_Zd##letter##PvRKSt9nothrow_t, const void *nothrow)                      \
    {                                                                               \
        (void)nothrow;                                                              \
        exgen_free(block);                                                          \
    }                                                                               \
    DELETE(_Zd##letter##PvSt11align_val_t, size_t alignment)                        \
    {                                                                               \
        (void)alignment;                                                            \
        exgen_free(block);                                                          \
    }                                                                               \
    DELETE(_Zd##letter##PvmSt11align_val_t, size_t size, size_t alignment)          \
    {                                                                               \
        exgen_free_aligned_sized(block, alignment, size);                           \
    }                                                                               \
    DELETE(_Zd##letter##PvSt11align_val_tRKSt9nothrow_t, size_t alignment, const void *nothrow) \
    {                                                                               \
        (void)alignment;                                                            \
        (void)nothrow;                                                              \
        exgen_free(block);                                                          \
    }

NEW_FORMS(w)    /* new */
NEW_FORMS(a)    /* new[] */
DELETE_FORMS(l) /* delete */
DELETE_FORMS(a) /* delete[] */
