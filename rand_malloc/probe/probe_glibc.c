/* probe_glibc.c - find glibc malloc's effective settings by watching it work.
 *
 * glibc has no reader for its settings: `ld.so --list-tunables` shows what the
 * loader accepted, also where malloc refuses the value later (thread cache and
 * fast bins), and shows "unset" as 0.  So those are observed:
 *
 *   top_pad         what is left on top after the heap grew for one block
 *   hugetlb         the heap then ends on a huge page
 *   mmap threshold  the least power of two that is served by mmap
 *   dynamic         freeing a mmapped block raises the threshold
 *   tcache_count    blocks that stay "in use" in mallinfo2 after free: they
 *                   wait in the thread cache
 *   tcache_max      the largest size of which one freed block stays in use
 *   fast bins       the largest chunk that shows up as a fast-bin block
 *
 * Every observation allocates fresh blocks, so the order matters only in that
 * the growth of the heap comes first.
 *
 * Source: malloc/malloc.c of glibc 2.36 (sysmalloc, _int_free, int_mallinfo).
 */
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe.h"

enum {
    CHUNK_HEADER = 8,       /* bytes of a chunk that the program cannot use */
    CHUNK_MIN = 32,         /* least chunk; also kept free on top */
    CHUNK_STEP = 16,        /* chunks are multiples of this */
    CHUNK_IS_MMAPPED = 2,   /* flag in the size word before a block */
    SMALL_CHUNK_MAX = 1040, /* largest chunk in the classic thread cache */
    LARGE_LG_MIN = 11,      /* requests of the large thread-cache bins, */
    LARGE_LG_MAX = 22,      /* glibc 2.42 and later, are powers of two */
    MMAP_LG_MIN = 12,       /* search range of the mmap threshold */
    MMAP_LG_MAX = 30,
    BLOCKS_MAX = 1 << 17,      /* above the greatest tcache_count, 65535 */
    TRIAL_BYTES = 160 << 10,   /* above the default mmap threshold of 128 KiB */
    GROWTH_BYTES = 2000,       /* small enough never to be mmapped in practice */
    HUGE_PAGE_BYTES = 2 << 20, /* transparent huge page of x86-64 */
    STRAYS_MAX = 64            /* blocks beyond the thread cache: some come from a remainder one
                                * step larger than asked, and return to another size's bin */
};

static struct {
    void **blocks; /* room for BLOCKS_MAX pointers, from mmap */
    void *kept;    /* latest block taken for good */
} state;

static bool is_mmapped(const void *block) {
    const size_t *size_word = (const size_t *)block - 1;
    __asm__("" : "+r"(size_word)); /* the compiler would rightly say it lies outside the block */
    return *size_word & CHUNK_IS_MMAPPED;
}

/* Allocate a block that may stay: what follows must not find it free. */
static void *take(size_t request) {
    state.kept = malloc(request);
    return state.kept;
}

/* Take what is left of the top of the heap, so that the next block must ask the system. */
static void use_up_top(void) {
    const size_t top = mallinfo2().keepcost;
    const size_t margin = 2 * (size_t)CHUNK_MIN;
    if (top > 2 * margin) {
        take(top - margin);
    }
}

static void observe_growth(void) {
    use_up_top();
    const void *block = take(GROWTH_BYTES);
    if (!block) {
        fprintf(stderr, "probe: malloc fails for a block of %d bytes\n", GROWTH_BYTES);
        exit(1);
    }
    if (is_mmapped(block)) {
        json_null(&report, "top_after_growth_bytes");
        json_null(&report, "heap_end_is_huge_page_aligned");
        return;
    }
    json_integer(&report, "top_after_growth_bytes", mallinfo2().keepcost);
    json_bool(&report, "heap_end_is_huge_page_aligned", (uintptr_t)sbrk(0) % HUGE_PAGE_BYTES == 0);
}

/* The heap grows by at most 2 GiB of address space, none of it touched. */
static void observe_mmap_threshold(void) {
    for (int lg = MMAP_LG_MIN; lg <= MMAP_LG_MAX; lg++) {
        use_up_top();
        const void *block = take((size_t)1 << lg);
        if (block && is_mmapped(block)) {
            json_integer(&report, "least_mmapped_power_of_two", 1ULL << lg);
            return;
        }
    }
    json_null(&report, "least_mmapped_power_of_two");
}

static void observe_dynamic(void) {
    use_up_top();
    void *first = take(TRIAL_BYTES);
    if (!first || !is_mmapped(first)) {
        json_bool(&report, "dynamic", false); /* the threshold was raised, so it was set */
        return;
    }
    free(first);
    use_up_top();
    const void *second = take(TRIAL_BYTES);
    json_bool(&report, "dynamic", second && !is_mmapped(second));
}

static bool allocate(size_t request, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++) {
        state.blocks[i] = malloc(request);
        if (!state.blocks[i]) {
            return false;
        }
    }
    return true;
}

/* Free n blocks; return how many of them left the books as free chunks. */
static size_t count_released(size_t request, size_t n_blocks) {
    const size_t in_use = mallinfo2().uordblks;
    for (size_t i = 0; i < n_blocks; i++) {
        free(state.blocks[i]);
    }
    return (in_use - mallinfo2().uordblks) / (request + CHUNK_HEADER);
}

/* Blocks of one size that the thread cache holds. */
static size_t observe_tcache_count(void) {
    const size_t request = CHUNK_MIN - CHUNK_HEADER;
    size_t n_cached = 0;
    for (size_t n_blocks = 64; n_blocks <= BLOCKS_MAX; n_blocks *= 2) {
        if (!allocate(request, n_blocks) || is_mmapped(state.blocks[n_blocks - 1])) {
            json_null(&report, "tcache_count"); /* every block is a mapping of its own */
            return 0;
        }
        n_cached = n_blocks - count_released(request, n_blocks);
        if (n_cached < n_blocks) {
            break;
        }
    }
    json_integer(&report, "tcache_count", n_cached);
    return n_cached;
}

/* What the program can use of the smallest chunk that holds a request of 24 bytes or more. */
static size_t usable_size(size_t request) {
    return (request + CHUNK_HEADER + CHUNK_STEP - 1) / CHUNK_STEP * CHUNK_STEP - CHUNK_HEADER;
}

/* A mmapped block says nothing about the thread cache, and one cut from a remainder that is a
 * step larger than asked comes from another bin: it is kept, and the next one is looked at. */
static bool is_cached(size_t request) {
    for (size_t i = 0; i < STRAYS_MAX; i++) {
        if (!allocate(request, 1) || is_mmapped(state.blocks[0])) {
            return false;
        }
        if (malloc_usable_size(state.blocks[0]) == usable_size(request)) {
            return count_released(request, 1) == 0;
        }
    }
    return false;
}

static void observe_tcache_max(size_t tcache_count) {
    size_t largest = 0;
    for (size_t chunk = CHUNK_MIN; chunk <= SMALL_CHUNK_MAX; chunk += 16) {
        if (!tcache_count || !is_cached(chunk - CHUNK_HEADER)) {
            break;
        }
        largest = chunk - CHUNK_HEADER;
    }
    for (int lg = LARGE_LG_MIN; lg <= LARGE_LG_MAX && largest >= SMALL_CHUNK_MAX - CHUNK_HEADER;
         lg++) {
        if (!is_cached((size_t)1 << lg)) {
            break;
        }
        largest = (size_t)1 << lg;
    }
    json_integer(&report, "tcache_max_bytes", largest);
}

static void observe_fast_bins(size_t tcache_count) {
    size_t largest = 0;
    for (size_t chunk = CHUNK_MIN; chunk <= 160; chunk += 16) {
        const size_t request = chunk - CHUNK_HEADER;
        const size_t n_blocks = tcache_count + STRAYS_MAX;
        if (n_blocks > BLOCKS_MAX || !allocate(request, n_blocks)) {
            break;
        }
        const size_t before = mallinfo2().smblks;
        (void)count_released(request, n_blocks);
        if (mallinfo2().smblks <= before) {
            break;
        }
        largest = chunk;
    }
    json_integer(&report, "fast_chunk_max_bytes", largest);
}

void probe_glibc(void) {
    void *room = mmap(NULL, BLOCKS_MAX * sizeof(void *), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        json_null(&report, "glibc");
        return;
    }
    state.blocks = room;
    free(malloc(1)); /* sets the heap and the thread cache up */
    json_open(&report, "glibc");
    observe_growth();
    observe_mmap_threshold();
    observe_dynamic();
    const size_t tcache_count = observe_tcache_count();
    observe_tcache_max(tcache_count);
    observe_fast_bins(tcache_count);
    json_close(&report);
}
