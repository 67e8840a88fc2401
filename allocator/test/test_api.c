/* test_api.c - the libc surface keeps the rules of C23, POSIX and glibc.
 *
 * Linked with the real library under its standard names, both flavours.
 */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exgen.h"
#include "test.h"

void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
/* jemalloc's, whose header may be missing. */
void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
size_t xallocx(void *block, size_t size, size_t extra, int flags);
size_t sallocx(const void *block, int flags);
void dallocx(void *block, int flags);
void sdallocx(void *block, size_t size, int flags);
size_t nallocx(size_t size, int flags);

enum {
    CACHE_AND_ARENA = 3 << 8 | 2 << 20, /* MALLOCX_TCACHE(1) | MALLOCX_ARENA(1) */
    ZERO = 64,                          /* MALLOCX_ZERO */
    LOG2_ALIGNMENT = 12
};

/* Sizes no compiler may see through. */
static volatile size_t too_large = (size_t)PTRDIFF_MAX + 1;
static volatile size_t most = SIZE_MAX;
static volatile size_t zero = 0;

static void size_zero_gives_distinct_blocks(void) {
    char *a = malloc(zero);
    char *b = calloc(zero, 5);
    char *c = realloc(NULL, zero);
    EXPECT(a != NULL && b != NULL && c != NULL && a != b && b != c && a != c);
    free(a);
    free(b);
    free(c);
}

static void realloc_to_zero_frees(void) {
    void *p = malloc(10);
    EXPECT(realloc(p, zero) == NULL);
}

static void too_large_is_enomem(void) {
    void *keep = malloc(10);
    errno = 0;
    EXPECT(malloc(too_large) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(calloc(most / 2, 3) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(calloc(too_large, 1) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(realloc(keep, too_large) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(reallocarray(keep, most / 2, 3) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(aligned_alloc(4096, too_large) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(memalign(64, most) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(valloc(most) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(pvalloc(most) == NULL && errno == ENOMEM);
    free(keep);
}

static void posix_memalign_returns_its_errors(void) {
    void *p = &p;
    errno = 77;
    EXPECT(posix_memalign(&p, 3, 10) == EINVAL && p == &p);
    EXPECT(posix_memalign(&p, 4, 10) == EINVAL && p == &p);
    EXPECT(posix_memalign(&p, 0, 10) == EINVAL && p == &p);
    EXPECT(errno == 77);
    EXPECT(posix_memalign(&p, 64, too_large) == ENOMEM && p == &p);
    EXPECT(errno == ENOMEM); /* POSIX leaves it open, glibc sets it */
    errno = 77;
    EXPECT(posix_memalign(&p, 64, 10) == 0 && (uintptr_t)p % 64 == 0);
    EXPECT(errno == 77);
    free(p);
}

static void bad_alignment_is_einval(void) {
    errno = 0;
    EXPECT(exgen_aligned_alloc(48, 10) == NULL && errno == EINVAL);
    errno = 0;
    EXPECT(exgen_aligned_alloc(0, 10) == NULL && errno == EINVAL);
    static volatile size_t odd = 48;
    static volatile size_t highest = (size_t)1 << 63;
    errno = 0;
    EXPECT(memalign(highest, 10) == NULL && errno == ENOMEM); /* a power of two, so not bad */
    errno = 0;
    EXPECT(memalign(highest + 1, 10) == NULL && errno == EINVAL);
    void *p = memalign(odd, 10); /* rounded up, as in glibc */
    EXPECT(p != NULL && (uintptr_t)p % 64 == 0);
    free(p);
}

static void every_alignment_is_kept(void) {
    for (size_t alignment = 8; alignment <= (size_t)1 << 24; alignment *= 2)
        for (size_t size = 1; size < 300000; size = size * 3 + 1) {
            char *p = aligned_alloc(alignment, size);
            EXPECT(p != NULL && (uintptr_t)p % alignment == 0);
            EXPECT(malloc_usable_size(p) >= size);
            p[0] = p[size - 1] = 1;
            free_aligned_sized(p, alignment, size);
        }
    for (size_t size = 0; size < 5000; size++) {
        void *p = malloc(size);
        EXPECT((uintptr_t)p % 16 == 0);
        free_sized(p, size);
    }
}

static void page_functions_round(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *p = valloc(10);
    void *q = pvalloc(10);
    EXPECT((uintptr_t)p % page == 0 && (uintptr_t)q % page == 0);
    EXPECT(malloc_usable_size(q) >= page);
    free(p);
    free(q);
}

static void errno_survives_free(void) {
    void *small = malloc(10);
    void *run = malloc(100000);
    void *large = malloc(20000000);
    errno = 77;
    free(small);
    free(run);
    free(large);
    free(NULL);
    EXPECT(errno == 77);
}

static void realloc_keeps_contents(void) {
    size_t size = 1;
    unsigned char *p = malloc(size);
    p[0] = 0;
    while (size < 5000000) {
        size_t larger = size + size / 3 + 1;
        p = realloc(p, larger);
        EXPECT(p != NULL);
        for (size_t i = 0; i < size; i += 1 + i / 64)
            EXPECT(p[i] == (unsigned char)(i * 7));
        for (size_t i = 0; i < larger; i++)
            p[i] = (unsigned char)(i * 7);
        size = larger;
    }
    while (size > 1) {
        size = size / 3 + size / 4;
        p = realloc(p, size);
        EXPECT(p != NULL);
        for (size_t i = 0; i < size; i += 1 + i / 64)
            EXPECT(p[i] == (unsigned char)(i * 7));
    }
    free(p);
}

/* A block for a first guess is no home for what turns out to be little more than half of it. */
static void a_block_that_shrinks_leaves_its_class(void) {
    for (size_t guess = 1024; guess <= 4096; guess *= 2) {
        char *p = malloc(guess);
        p[guess / 2] = 'x';
        p = realloc(p, guess / 2 + 1);
        EXPECT(p != NULL && p[guess / 2] == 'x');
        EXPECT(malloc_usable_size(p) <= guess / 4 * 3);
        free(p);
    }
}

static void a_block_that_shrinks_by_little_stays(void) {
    static const size_t sizes[][2] = {{128, 64}, {1000, 900}, {1536, 1300}, {4000, 3600}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *p = malloc(sizes[i][0]);
        uintptr_t before = (uintptr_t)p;
        p = realloc(p, sizes[i][1]);
        EXPECT((uintptr_t)p == before);
        free(p);
    }
}

static bool is_zero(const char *from, const char *to) {
    while (from < to && *from == 0)
        from++;
    return from == to;
}

static void names_of_jemalloc_are_of_the_same_heap(void) {
    char *p = mallocx(100, CACHE_AND_ARENA);
    EXPECT(malloc_usable_size(p) == sallocx(p, 0) && xallocx(p, 5000, 0, 0) == sallocx(p, 0));
    free(memset(p, 1, 100));
    sdallocx(malloc(100), 100, CACHE_AND_ARENA);
    dallocx(calloc(1, 5000), 0);
    EXPECT(mallocx(too_large, 0) == NULL && nallocx(too_large, 0) == 0);
    EXPECT(nallocx(100, 0) >= 100 && nallocx(100, 63) == 0);
    p = realloc(NULL, 10);
    EXPECT(rallocx(p, too_large, 0) == NULL);
    free(rallocx(p, 0, 0));
}

static void blocks_of_jemallocs_names_are_zero_and_aligned(void) {
    static const size_t sizes[] = {1, 100, 5000, 100000, 3000000};
    for (size_t i = 0; i < 4; i++)
        for (int flags = ZERO; flags <= (ZERO | LOG2_ALIGNMENT); flags += LOG2_ALIGNMENT) {
            free(memset(malloc(sizes[i]), 1, sizes[i]));
            char *p = mallocx(sizes[i], flags);
            size_t used = sallocx(p, 0);
            EXPECT(used >= nallocx(sizes[i], flags) && is_zero(p, p + used));
            memset(p, 1, used);
            p = rallocx(p, sizes[i + 1], flags);
            used = used < sizes[i + 1] ? used : sizes[i + 1];
            EXPECT(p[0] == 1 && p[used - 1] == 1 && is_zero(p + used, p + sallocx(p, 0)));
            EXPECT(flags == ZERO || (uintptr_t)p % 4096 == 0);
            p = rallocx(p, 1, flags);
            EXPECT(p[0] == 1);
            dallocx(p, flags);
        }
}

static void calloc_is_zero_when_memory_is_used_again(void) {
    static const size_t sizes[] = {1,     100,    1000,   1500,   5000,
                                   30000, 100000, 400000, 600000, 3000000};
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *p = calloc(1, sizes[i]);
            EXPECT(p != NULL);
            for (size_t k = 0; k < sizes[i]; k++)
                EXPECT(p[k] == 0);
            memset(p, 255, malloc_usable_size(p));
            free(p);
        }
}

#ifdef __GLIBC__
void *__libc_malloc(size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static void names_of_glibc_are_the_same_functions(void) {
    free(__libc_malloc(100));
    free(__libc_memalign(64, 64));
    __libc_free(malloc(100));
}
#else
static void names_of_glibc_are_the_same_functions(void) {
}
#endif

static void configuration_can_be_read_back(void) {
    char json[4096];
    size_t length = exgen_config_json(json, sizeof json);
    EXPECT(length > 100 && length == strlen(json));
    EXPECT(strncmp(json, "{\"library\":\"exgen", 17) == 0);
    EXPECT(strstr(json, "\"options\":{\"superblock_size\":") != NULL);
    EXPECT(exgen_config_json(json, 10) == length && strlen(json) == 9);
    EXPECT(exgen_config_json(json, 1) == length && json[0] == '\0');
    EXPECT(exgen_config_json(NULL, 0) == length);
}

static void statistics_count_blocks(void) {
    struct exgen_stats before;
    struct exgen_stats after;
    exgen_get_stats(&before, sizeof before);
    void *small = malloc(100);
    void *large = malloc(10000000);
    exgen_get_stats(&after, sizeof after);
    EXPECT(after.n_blocks == before.n_blocks + 1);
    EXPECT(after.block_bytes == before.block_bytes + malloc_usable_size(small));
    EXPECT(after.n_large == before.n_large + 1);
    EXPECT(after.large_bytes >= before.large_bytes + 10000000);
    free(small);
    free(large);
    EXPECT(exgen_validate_heap());
}

/* The system bounds how many of those there are. */
static void aligned_blocks_are_no_mappings(void) {
    enum {
        N = 50
    };
    char *blocks[N];
    struct exgen_stats before;
    struct exgen_stats after;
    exgen_get_stats(&before, sizeof before);
    for (size_t alignment = 32768; alignment <= 262144; alignment *= 2)
        for (size_t size = 100; size <= 200000; size *= 10) {
            for (size_t i = 0; i < N; i++) {
                blocks[i] = memalign(alignment, size);
                EXPECT(blocks[i] != NULL && (uintptr_t)blocks[i] % alignment == 0);
                blocks[i][0] = blocks[i][size - 1] = (char)i;
            }
            exgen_get_stats(&after, sizeof after);
            EXPECT(after.n_large == before.n_large && exgen_validate_heap());
            for (size_t i = 0; i < N; i++)
                free(blocks[i]);
        }
}

int main(void) {
    EXPECT((void *)malloc != (void *)0 && malloc_usable_size(NULL) == 0);
    size_zero_gives_distinct_blocks();
    realloc_to_zero_frees();
    too_large_is_enomem();
    posix_memalign_returns_its_errors();
    bad_alignment_is_einval();
    every_alignment_is_kept();
    page_functions_round();
    errno_survives_free();
    realloc_keeps_contents();
    a_block_that_shrinks_leaves_its_class();
    a_block_that_shrinks_by_little_stays();
    names_of_jemalloc_are_of_the_same_heap();
    blocks_of_jemallocs_names_are_zero_and_aligned();
    calloc_is_zero_when_memory_is_used_again();
    names_of_glibc_are_the_same_functions();
    configuration_can_be_read_back();
    statistics_count_blocks();
    aligned_blocks_are_no_mappings();
    return test_passed();
}
