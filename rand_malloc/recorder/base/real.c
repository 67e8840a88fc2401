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
    .program_malloc = first_malloc,
    .program_free = first_free,
    .program_aligned_alloc = first_aligned_alloc,
};

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

/* A data pointer becomes a function pointer by copying, which ISO C allows. */
static void find(void *scope, void *function, const char *name) {
    void *found = dlsym(scope, name);
    if (found != NULL)
        memcpy(function, &found, sizeof found);
}

static void find_program(struct real_functions *found) {
    void *program_malloc = dlsym(RTLD_DEFAULT, "malloc");
    found->program_malloc = NULL;
    found->program_free = NULL;
    found->program_aligned_alloc = NULL;
    if (program_malloc == NULL || leads_to_us(program_malloc))
        return;
    find(RTLD_DEFAULT, &found->program_malloc, "malloc");
    find(RTLD_DEFAULT, &found->program_free, "free");
    find(RTLD_DEFAULT, &found->program_aligned_alloc, "aligned_alloc");
}

static void look_up(void) {
    struct real_functions found = real;
    lookup.is_looking = true;
    find_program(&found);
    find(RTLD_NEXT, &found.malloc, "malloc");
    find(RTLD_NEXT, &found.free, "free");
    find(RTLD_NEXT, &found.calloc, "calloc");
    find(RTLD_NEXT, &found.realloc, "realloc");
    find(RTLD_NEXT, &found.memalign, "memalign");
    find(RTLD_NEXT, &found.aligned_alloc, "aligned_alloc");
    find(RTLD_NEXT, &found.posix_memalign, "posix_memalign");
    find(RTLD_NEXT, &found.usable_size, "malloc_usable_size");
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
