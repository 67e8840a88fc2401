/* real.c - see real.h. */
#include "base/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

static void *first_malloc(size_t size);
static void first_free(void *block);
static void *first_calloc(size_t n, size_t size);
static void *first_realloc(void *block, size_t size);
static void *first_memalign(size_t alignment, size_t size);
static void *first_aligned_alloc(size_t alignment, size_t size);
static int first_posix_memalign(void **block, size_t alignment, size_t size);

struct real_functions real = {
    .malloc = first_malloc,
    .free = first_free,
    .calloc = first_calloc,
    .realloc = first_realloc,
    .memalign = first_memalign,
    .aligned_alloc = first_aligned_alloc,
    .posix_memalign = first_posix_memalign,
};

bool real_is_of_program;
_Alignas(64) char real_arena[ARENA_BYTES];

static struct {
    size_t arena_used;
    bool is_looking; /* dlsym runs: serve from the arena */
} lookup;

static void *arena_take(size_t alignment, size_t size) {
    size_t start = (lookup.arena_used + alignment - 1) / alignment * alignment;
    if (alignment > 64 || start > ARENA_BYTES || size > ARENA_BYTES - start) {
        errno = ENOMEM;
        return NULL;
    }
    lookup.arena_used = start + size;
    return real_arena + start;
}

/* Is it a function of this library, or what stands for one in a program that takes its address? */
static bool leads_to_us(void *function) {
    Dl_info theirs, ours;
    const ElfW(Sym) *symbol = NULL;
    if (dladdr1(function, &theirs, (void **)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL ||
        symbol->st_shndx == SHN_UNDEF)
        return true;
    return dladdr(&lookup, &ours) != 0 && theirs.dli_fbase == ours.dli_fbase;
}

/* Finds what the C++ run time would call without us; returns whether the program brings it.  A
 * data pointer becomes a function pointer by copying, which ISO C allows. */
static bool find(void *function, const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    bool is_of_program = found != NULL && !leads_to_us(found);
    if (!is_of_program)
        found = dlsym(RTLD_NEXT, name);
    if (found != NULL)
        memcpy(function, &found, sizeof found);
    return is_of_program;
}

static void look_up(void) {
    struct real_functions found = real;
    lookup.is_looking = true;
    real_is_of_program = find(&found.malloc, "malloc");
    find(&found.free, "free");
    find(&found.calloc, "calloc");
    find(&found.realloc, "realloc");
    find(&found.memalign, "memalign");
    find(&found.aligned_alloc, "aligned_alloc");
    find(&found.posix_memalign, "posix_memalign");
    find(&found.usable_size, "malloc_usable_size");
    lookup.is_looking = false;
    real = found;
}

/* The allocator lacks this function: fail as for want of memory. */
static void *missing(void) {
    errno = ENOMEM;
    return NULL;
}

void real_prepare(void) {
    if (real.malloc == first_malloc)
        look_up();
}

static void *first_malloc(size_t size) {
    if (lookup.is_looking)
        return arena_take(16, size);
    look_up();
    return real.malloc == first_malloc ? missing() : real.malloc(size);
}

static void first_free(void *block) {
    if (lookup.is_looking || real_is_foreign(block))
        return;
    look_up();
    if (real.free != first_free)
        real.free(block);
}

static void *first_calloc(size_t n, size_t size) {
    size_t bytes;
    if (lookup.is_looking) /* the arena is static, hence zeroed */
        return __builtin_mul_overflow(n, size, &bytes) ? missing() : arena_take(16, bytes);
    look_up();
    return real.calloc == first_calloc ? missing() : real.calloc(n, size);
}

static void *first_realloc(void *block, size_t size) {
    if (lookup.is_looking)
        return block == NULL ? arena_take(16, size) : missing();
    look_up();
    return real.realloc == first_realloc ? missing() : real.realloc(block, size);
}

static void *first_memalign(size_t alignment, size_t size) {
    if (lookup.is_looking)
        return arena_take(alignment, size);
    look_up();
    return real.memalign == first_memalign ? missing() : real.memalign(alignment, size);
}

static void *first_aligned_alloc(size_t alignment, size_t size) {
    if (lookup.is_looking)
        return arena_take(alignment, size);
    look_up();
    return real.aligned_alloc == first_aligned_alloc ? missing()
                                                     : real.aligned_alloc(alignment, size);
}

static int first_posix_memalign(void **block, size_t alignment, size_t size) {
    if (lookup.is_looking) {
        *block = arena_take(alignment, size);
        return *block == NULL ? ENOMEM : 0;
    }
    look_up();
    return real.posix_memalign == first_posix_memalign
               ? ENOMEM
               : real.posix_memalign(block, alignment, size);
}
