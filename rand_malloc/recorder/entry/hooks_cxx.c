/* hooks_cxx.c - operator new and delete in all their forms, without C++.
 *
 * They are ordinary functions with the names of the Itanium C++ ABI (section
 * 5.1.5, "operator names"; size_t is `m` on LP64), so the library can be preloaded
 * into programs that have no C++ in them.  A block comes from the real malloc;
 * when that fails the call goes on to the operator behind us, which runs the
 * new-handler and throws std::bad_alloc.  Its own allocation passes through our
 * malloc and is recorded there.  Built with -fexceptions so that it can throw
 * through us.
 *
 * A program may replace a form that others lead to by the standard: operator new(size_t) and
 * operator delete(void *), say, and none of the array, sized and nothrow forms.  These stand before
 * those of the C++ run time, so they lead to the program's form, too; it records itself by our
 * malloc.
 *
 * Source: ISO C++ [new.delete.single] to [new.delete.array] for which form leads where.
 *
 * Limit: a C++ run time loaded with RTLD_LOCAL cannot be found; running out of
 * memory in it ends the program with a message.
 */
#include "entry/give.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The real operator `name`, or the end of the program. */
static RECORDER_COLD void *find_operator(const char *name) {
    static const char text[] = "malloc-tuner: out of memory in operator new, and no C++ run time "
                               "to throw std::bad_alloc\n";
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
        abort();
    }
    return found;
}

static RECORDER_COLD void *new_or_throw(const char *name, size_t size) {
    void *(*function)(size_t);
    void *found = find_operator(name);
    memcpy(&function, &found, sizeof found);
    return function(size);
}

static RECORDER_COLD void *new_aligned_or_throw(const char *name, size_t size, size_t alignment) {
    void *(*function)(size_t, size_t);
    void *found = find_operator(name);
    memcpy(&function, &found, sizeof found);
    return function(size, alignment);
}

/* Has the program a malloc of its own?  Before anything was looked up it seems so. */
static RECORDER_COLD bool is_of_program(void) {
    real_prepare();
    return real.program_malloc != NULL;
}

static inline void *take(enum record_short code, size_t size) {
    size_t bytes = size == 0 ? 1 : size; /* every new is a distinct block */
    if (__builtin_expect(real.program_malloc != NULL, 0) && is_of_program())
        return real.program_malloc(bytes);
    void *block = real.malloc(bytes);
    if (real_is_foreign(block))
        return block;
    if (__builtin_expect(bytes >= TRACE_TOUCH_LEAST_BYTES, 0))
        lanes_record_large(record_codes[code], 0, block, bytes);
    else
        record(code, block, bytes, clock_stamp());
    return block;
}

static inline void *take_aligned(enum trace_api api, size_t size, size_t alignment) {
    size_t bytes = (size + alignment - 1) / alignment * alignment; /* as aligned_alloc asks */
    if (bytes < size)
        return NULL;
    bytes = bytes == 0 ? alignment : bytes;
    if (__builtin_expect(real.program_malloc != NULL, 0) && is_of_program())
        return real.program_aligned_alloc(alignment, bytes);
    void *block = real.aligned_alloc(alignment, bytes);
    if (!real_is_foreign(block))
        lanes_record_large(RECORD_CODE(TRACE_ALIGNED, api), (unsigned)__builtin_ctzl(alignment),
                           block, bytes);
    return block;
}

/* A forms a function and its ABI name; C needs the name in two places. */
#define OPERATOR(result, function, name, ...)                                                      \
    RECORDER_EXPORT result function(__VA_ARGS__) __asm__(name);                                    \
    RECORDER_EXPORT result function(__VA_ARGS__)

/* A form that a program may replace and others lead to: under a name that is ours in any case, and
 * as the loader finds it, which the compiler is not to know. */
#define REPLACEABLE(function, name)                                                                \
    extern __typeof__(function) function##_here                                                    \
        __attribute__((alias(name), visibility("hidden")));                                        \
    static __typeof__(function) *volatile const function##_linked = function

#define IS_REPLACED(function) __builtin_expect(function##_linked != function##_here, 0)

OPERATOR(void *, new_one, "_Znwm", size_t size) {
    void *block = take(SHORT_NEW, size);
    return block != NULL ? block : new_or_throw("_Znwm", size);
}
REPLACEABLE(new_one, "_Znwm");

OPERATOR(void *, new_array, "_Znam", size_t size) {
    if (IS_REPLACED(new_one))
        return new_one_linked(size);
    void *block = take(SHORT_NEW_ARRAY, size);
    return block != NULL ? block : new_or_throw("_Znam", size);
}
REPLACEABLE(new_array, "_Znam");

OPERATOR(void *, new_one_aligned, "_ZnwmSt11align_val_t", size_t size, size_t alignment) {
    void *block = take_aligned(TRACE_API_NEW, size, alignment);
    return block != NULL ? block : new_aligned_or_throw("_ZnwmSt11align_val_t", size, alignment);
}
REPLACEABLE(new_one_aligned, "_ZnwmSt11align_val_t");

OPERATOR(void *, new_array_aligned, "_ZnamSt11align_val_t", size_t size, size_t alignment) {
    if (IS_REPLACED(new_one_aligned))
        return new_one_aligned_linked(size, alignment);
    void *block = take_aligned(TRACE_API_NEW_ARRAY, size, alignment);
    return block != NULL ? block : new_aligned_or_throw("_ZnamSt11align_val_t", size, alignment);
}
REPLACEABLE(new_array_aligned, "_ZnamSt11align_val_t");

/* The nothrow forms also run the new-handler, or the form that the program replaced; what catches
 * its exception is inside the real operator. */
static RECORDER_COLD void *new_nothrow(const char *name, size_t size, const void *tag) {
    void *(*function)(size_t, const void *);
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        return NULL;
    memcpy(&function, &found, sizeof found);
    return function(size, tag);
}

static RECORDER_COLD void *new_aligned_nothrow(const char *name, size_t size, size_t alignment,
                                               const void *tag) {
    void *(*function)(size_t, size_t, const void *);
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        return NULL;
    memcpy(&function, &found, sizeof found);
    return function(size, alignment, tag);
}

OPERATOR(void *, new_one_nothrow, "_ZnwmRKSt9nothrow_t", size_t size, const void *tag) {
    bool is_replaced = IS_REPLACED(new_one);
    void *block = is_replaced ? NULL : take(SHORT_NEW, size);
    return block != NULL ? block : new_nothrow("_ZnwmRKSt9nothrow_t", size, tag);
}

OPERATOR(void *, new_array_nothrow, "_ZnamRKSt9nothrow_t", size_t size, const void *tag) {
    bool is_replaced = IS_REPLACED(new_array) || IS_REPLACED(new_one);
    void *block = is_replaced ? NULL : take(SHORT_NEW_ARRAY, size);
    return block != NULL ? block : new_nothrow("_ZnamRKSt9nothrow_t", size, tag);
}

OPERATOR(void *, new_one_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", size_t size,
         size_t alignment, const void *tag) {
    bool is_replaced = IS_REPLACED(new_one_aligned);
    void *block = is_replaced ? NULL : take_aligned(TRACE_API_NEW, size, alignment);
    return block != NULL
               ? block
               : new_aligned_nothrow("_ZnwmSt11align_val_tRKSt9nothrow_t", size, alignment, tag);
}

OPERATOR(void *, new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", size_t size,
         size_t alignment, const void *tag) {
    bool is_replaced = IS_REPLACED(new_array_aligned) || IS_REPLACED(new_one_aligned);
    void *block = is_replaced ? NULL : take_aligned(TRACE_API_NEW_ARRAY, size, alignment);
    return block != NULL
               ? block
               : new_aligned_nothrow("_ZnamSt11align_val_tRKSt9nothrow_t", size, alignment, tag);
}

static inline void give_back(enum record_short code, void *block) {
    if (__builtin_expect(real.program_malloc != NULL, 0) && is_of_program())
        real.program_free(block);
    else
        give(code, block);
}

OPERATOR(void, delete_one, "_ZdlPv", void *block) {
    give_back(SHORT_DELETE, block);
}
REPLACEABLE(delete_one, "_ZdlPv");

OPERATOR(void, delete_one_aligned, "_ZdlPvSt11align_val_t", void *block, size_t alignment) {
    (void)alignment;
    give_back(SHORT_DELETE, block);
}
REPLACEABLE(delete_one_aligned, "_ZdlPvSt11align_val_t");

static inline void give_back_one(enum record_short code, void *block) {
    if (IS_REPLACED(delete_one))
        delete_one_linked(block);
    else
        give_back(code, block);
}

static inline void give_back_one_aligned(enum record_short code, void *block, size_t alignment) {
    if (IS_REPLACED(delete_one_aligned))
        delete_one_aligned_linked(block, alignment);
    else
        give_back(code, block);
}

OPERATOR(void, delete_array, "_ZdaPv", void *block) {
    give_back_one(SHORT_DELETE_ARRAY, block);
}
REPLACEABLE(delete_array, "_ZdaPv");

OPERATOR(void, delete_array_aligned, "_ZdaPvSt11align_val_t", void *block, size_t alignment) {
    give_back_one_aligned(SHORT_DELETE_ARRAY, block, alignment);
}
REPLACEABLE(delete_array_aligned, "_ZdaPvSt11align_val_t");

static inline void give_back_array(enum record_short code, void *block) {
    if (IS_REPLACED(delete_array))
        delete_array_linked(block);
    else
        give_back_one(code, block);
}

static inline void give_back_array_aligned(enum record_short code, void *block, size_t alignment) {
    if (IS_REPLACED(delete_array_aligned))
        delete_array_aligned_linked(block, alignment);
    else
        give_back_one_aligned(code, block, alignment);
}

/* The sized and nothrow forms: what stands between does not matter to us. */
#define DELETE(form, letter, code, sized_code)                                                     \
    OPERATOR(void, delete_##form##_nothrow, "_Zd" letter "PvRKSt9nothrow_t", void *block) {        \
        give_back_##form(code, block);                                                             \
    }                                                                                              \
    OPERATOR(void, delete_##form##_sized, "_Zd" letter "Pvm", void *block) {                       \
        give_back_##form(sized_code, block);                                                       \
    }                                                                                              \
    OPERATOR(void, delete_##form##_sized_aligned, "_Zd" letter "PvmSt11align_val_t", void *block,  \
             size_t size, size_t alignment) {                                                      \
        (void)size;                                                                                \
        give_back_##form##_aligned(sized_code, block, alignment);                                  \
    }                                                                                              \
    OPERATOR(void, delete_##form##_aligned_nothrow,                                                \
             "_Zd" letter "PvSt11align_val_tRKSt9nothrow_t", void *block, size_t alignment) {      \
        give_back_##form##_aligned(code, block, alignment);                                        \
    }

DELETE(one, "l", SHORT_DELETE, SHORT_DELETE_SIZED)
DELETE(array, "a", SHORT_DELETE_ARRAY, SHORT_DELETE_SIZED)
