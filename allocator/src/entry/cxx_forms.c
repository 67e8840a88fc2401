/* cxx_forms.c - the sized and nothrow forms of C++ delete.
 *
 * A program may replace operator delete(void *), operator delete[](void *), or their aligned twins,
 * and nothing else; by the standard all other forms then lead to the program's.  So they call them
 * by their names, and the linker, or at run time the loader, says whose they are: this file must
 * not define them.  Where they are ours, sized delete skips the detour, and `check` verifies the
 * size.
 *
 * The forms of new with nothrow are in cxx_nothrow.c, and in archives the C++ library's.
 *
 * Source: ISO C++ [new.delete.single] to [new.delete.array] for the rules.
 */
#include "entry/fast.h"

#define VISIBLE __attribute__((visibility("default")))

/* The program's own, or ours. */
extern VISIBLE void delete_of_program(void *block) __asm__("_ZdlPv");
extern VISIBLE void delete_aligned_of_program(void *block,
                                              size_t alignment) __asm__("_ZdlPvSt11align_val_t");
extern VISIBLE void delete_array_of_program(void *block) __asm__("_ZdaPv");
extern VISIBLE void
delete_array_aligned_of_program(void *block, size_t alignment) __asm__("_ZdaPvSt11align_val_t");

/* Ours, see cxx.c and cxx_arrays.c. */
extern HIDDEN void delete_here(void *block), delete_array_here(void *block);
extern HIDDEN void delete_aligned_here(void *block, size_t alignment),
    delete_array_aligned_here(void *block, size_t alignment);

ALWAYS_INLINE void delete_sized(void *block, size_t size) {
    if (likely(delete_of_program == delete_here))
        deallocate_sized(block, size);
    else
        delete_of_program(block);
}

ALWAYS_INLINE void delete_sized_aligned(void *block, size_t size, size_t alignment) {
    if (likely(delete_aligned_of_program == delete_aligned_here))
        deallocate_sized(block, size);
    else
        delete_aligned_of_program(block, alignment);
}

ALWAYS_INLINE void delete_array_sized_aligned(void *block, size_t size, size_t alignment) {
    if (likely(delete_array_aligned_of_program == delete_array_aligned_here))
        delete_sized_aligned(block, size, alignment);
    else
        delete_array_aligned_of_program(block, alignment);
}

#define FORM(type, name, ...)                                                                      \
    extern type name(__VA_ARGS__) __attribute__((weak, visibility("default")));                    \
    type name(__VA_ARGS__)

HIDDEN void delete_sized_here(void *block, size_t size);
void delete_sized_here(void *block, size_t size) {
    delete_sized(block, size);
}
extern __typeof__(delete_sized_here) _ZdlPvm
    __attribute__((weak, alias("delete_sized_here"), visibility("default")));

/* One copy of the common path is enough. */
FORM(void, _ZdaPvm, void *block, size_t size) {
    if (likely(delete_array_of_program == delete_array_here))
        delete_sized_here(block, size);
    else
        delete_array_of_program(block);
}

#define DELETE_FORMS(letter, delete)                                                               \
    FORM(void, _Zd##letter##PvRKSt9nothrow_t, void *block, const void *nothrow) {                  \
        (void)nothrow;                                                                             \
        delete##_of_program(block);                                                                \
    }                                                                                              \
    FORM(void, _Zd##letter##PvmSt11align_val_t, void *block, size_t size, size_t alignment) {      \
        delete##_sized_aligned(block, size, alignment);                                            \
    }                                                                                              \
    FORM(void, _Zd##letter##PvSt11align_val_tRKSt9nothrow_t, void *block, size_t alignment,        \
         const void *nothrow) {                                                                    \
        (void)nothrow;                                                                             \
        delete##_aligned_of_program(block, alignment);                                             \
    }

DELETE_FORMS(l, delete)
DELETE_FORMS(a, delete_array) /* delete[] */
