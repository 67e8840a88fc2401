/* cxx_nothrow.c - C++ new with nothrow, in the shared libraries.
 *
 * jemalloc, tcmalloc and mimalloc have these forms too: where a program is linked with one, its
 * blocks would come to our delete. Where the program replaces new, and where memory is out, the C++
 * library's forms do the rest: they call new, and catch what it throws, as no C function can.
 */
#include "entry/fast.h"
#include "exgen.h"

extern HIDDEN void *loaded_symbol(const char *name);

/* The program's own, or ours, and ours: see cxx.c and cxx_arrays.c. */
extern __attribute__((visibility("default"))) void *_Znwm(size_t), *_Znam(size_t),
    *_ZnwmSt11align_val_t(size_t, size_t), *_ZnamSt11align_val_t(size_t, size_t);
extern HIDDEN void *new_here(size_t), *new_array_here(size_t), *new_aligned_here(size_t, size_t),
    *new_array_aligned_here(size_t, size_t);

#define FORM(name, allocation, parameters, ...)                                                    \
    extern void *name##RKSt9nothrow_t parameters __attribute__((weak, visibility("default")));     \
    void *name##RKSt9nothrow_t parameters {                                                        \
        void *block = (allocation);                                                                \
        void *(*form)parameters = NULL;                                                            \
        if (unlikely(block == NULL))                                                               \
            form = (void *(*)parameters)loaded_symbol(#name "RKSt9nothrow_t");                     \
        return form != NULL ? form(__VA_ARGS__) : block;                                           \
    }

#define IS_OURS         (_Znwm == new_here)
#define IS_OURS_ALIGNED (_ZnwmSt11align_val_t == new_aligned_here)

FORM(_Znwm, IS_OURS ? exgen_malloc(size) : NULL, (size_t size, const void *tag), size, tag)
FORM(_Znam, IS_OURS &&_Znam == new_array_here ? exgen_malloc(size) : NULL,
     (size_t size, const void *tag), size, tag)
FORM(_ZnwmSt11align_val_t, IS_OURS_ALIGNED ? exgen_memalign(alignment, size) : NULL,
     (size_t size, size_t alignment, const void *tag), size, alignment, tag)
FORM(_ZnamSt11align_val_t,
     IS_OURS_ALIGNED &&_ZnamSt11align_val_t == new_array_aligned_here
         ? exgen_memalign(alignment, size)
         : NULL,
     (size_t size, size_t alignment, const void *tag), size, alignment, tag)
