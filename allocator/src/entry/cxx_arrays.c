/* cxx_arrays.c - C++ new[] and delete[].
 *
 * A program may replace the forms for one block alone; by the standard those for arrays then lead
 * to the program's.  So they call them by their names: this file must not define them.  Under names
 * of their own as well, to know them by.
 *
 * Source: ISO C++ [new.delete.array] for the rules.
 */
#include "entry/fast.h"

#define VISIBLE     __attribute__((visibility("default")))
#define REPLACEABLE __attribute__((weak, visibility("default")))

/* The program's own, or ours: see cxx.c. */
extern VISIBLE void *new_of_program(size_t size) __asm__("_Znwm");
extern VISIBLE void *new_aligned_of_program(size_t size,
                                            size_t alignment) __asm__("_ZnwmSt11align_val_t");
extern VISIBLE void delete_of_program(void *block) __asm__("_ZdlPv");
extern VISIBLE void delete_aligned_of_program(void *block,
                                              size_t alignment) __asm__("_ZdlPvSt11align_val_t");

HIDDEN void *new_array_here(size_t size);
void *new_array_here(size_t size) {
    return new_of_program(size);
}
extern __typeof__(new_array_here) _Znam __attribute__((alias("new_array_here"))) REPLACEABLE;

HIDDEN void *new_array_aligned_here(size_t size, size_t alignment);
void *new_array_aligned_here(size_t size, size_t alignment) {
    return new_aligned_of_program(size, alignment);
}
extern __typeof__(new_array_aligned_here) _ZnamSt11align_val_t
    __attribute__((alias("new_array_aligned_here"))) REPLACEABLE;

HIDDEN void delete_array_here(void *block);
void delete_array_here(void *block) {
    delete_of_program(block);
}
extern __typeof__(delete_array_here) _ZdaPv __attribute__((alias("delete_array_here"))) REPLACEABLE;

HIDDEN void delete_array_aligned_here(void *block, size_t alignment);
void delete_array_aligned_here(void *block, size_t alignment) {
    delete_aligned_of_program(block, alignment);
}
extern __typeof__(delete_array_aligned_here) _ZdaPvSt11align_val_t
    __attribute__((alias("delete_array_aligned_here"))) REPLACEABLE;
