/* exgen.h - what exgen offers beyond the malloc of the C library.
 *
 * Settings come from the environment, EXGEN_CONF="name:value,name:value".  Those for production,
 * with their defaults and groups (allocator/README.md says what each does):
 *
 *   purge_delay          25         return
 *   purge_how            dontneed   return
 *   large_cache_percent  20         reuse
 *   huge_pages           grown      shape
 *   timer                0          return
 *   thread_max           0          return
 *   check                false      safety
 *   secure               false      safety
 *   deepbind             false      safety
 *   abort_conf           false      safety
 *   print_conf           false      safety
 *
 * Programs need this header only for statistics, validation and namespaced
 * calls; malloc, free and the rest keep their standard names and headers.
 */
#ifndef EXGEN_H
#define EXGEN_H

#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define EXGEN_VERSION "0.1.0"

/* The C allocation functions under names that cannot clash.  Rules as in C23
 * and glibc: NULL and ENOMEM when out of memory or above PTRDIFF_MAX; size 0
 * gives a block of its own; realloc(p, 0) frees p and returns NULL. */
void *exgen_malloc(size_t size);
void exgen_free(void *block);
void *exgen_calloc(size_t count, size_t size);
void *exgen_realloc(void *block, size_t size);
void *exgen_reallocarray(void *block, size_t count, size_t size);
void *exgen_aligned_alloc(size_t alignment, size_t size);
void *exgen_memalign(size_t alignment, size_t size);
int exgen_posix_memalign(void **block, size_t alignment, size_t size);
void *exgen_valloc(size_t size);
void *exgen_pvalloc(size_t size);
size_t exgen_malloc_usable_size(void *block);
void exgen_free_sized(void *block, size_t size);
void exgen_free_aligned_sized(void *block, size_t alignment, size_t size);

/* A snapshot, which changes nothing of running threads' heaps.  What is marked "thread" is of
 * the calling thread's heap only; what is marked "all" is of all heaps, those of other threads
 * read as they run.  Freed blocks count as in use while they are in other running threads' lists,
 * or were freed by another thread than their heap's and have not come home: exgen_check_leaks and
 * exgen_purge fetch those that such a thread let go of, of the caller's heap and of ended threads'.
 */
struct exgen_stats {
    size_t mapped_bytes;      /* now mapped from the system, mostly untouched */
    size_t mapped_peak_bytes; /* most that was ever mapped */
    size_t n_maps;            /* mmap and mremap calls that succeeded */
    size_t n_unmaps;          /* munmap calls */
    size_t n_purges;          /* madvise calls that gave memory back */
    size_t n_superblocks;     /* thread */
    size_t n_blocks;          /* thread: blocks in use, large ones not included */
    size_t block_bytes;       /* thread: their usable size */
    size_t n_large;           /* large blocks in use */
    size_t large_bytes;       /* their mapped size */
    size_t n_pooled;          /* empty superblocks in the pool */
    size_t n_orphans;         /* heaps of ended threads that hold blocks or memory */
    size_t all_superblocks;   /* all */
    size_t all_blocks;        /* all: blocks in use, large ones not included */
    size_t all_block_bytes;   /* all: their usable size */
};

/* Fill *stats; `size` is sizeof *stats of the caller's header, so that fields
 * added later do not overrun it. */
void exgen_get_stats(struct exgen_stats *stats, size_t size);

/* Write {"library":...,"version":...,"options":{...},"derived":{...}} with the
 * values in use and return its length, as snprintf does. */
size_t exgen_config_json(char *buffer, size_t capacity);

/* 1 if all data structures are consistent: the calling thread's heap, those of ended
 * threads, large blocks; of other threads' heaps the heads of superblocks. */
int exgen_validate_heap(void);

/* Number of blocks still in use in the whole process; of running threads' heaps an
 * upper bound, see exgen_stats.  With `report` a line goes to stderr for each of these that
 * still has some: the calling thread's heap, all other heaps, large blocks. */
size_t exgen_check_leaks(int report);

/* Give free memory back to the system: all that the calling thread can reach, and what other
 * threads that are not in the allocator hold beyond their lists of small blocks. */
void exgen_purge(void);

#if defined(__cplusplus)
}
#endif

#endif
