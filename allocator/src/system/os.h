/* os.h - the whole contract between exgen and the operating system.
 *
 * Nothing else in exgen maps, unmaps or advises memory.  No function here
 * changes errno.  Failure is a NULL or false result; the callers turn it into
 * NULL and ENOMEM for the program.  Tests replace these calls one layer below
 * (the linker wraps mmap and its relatives), so the n-th of them can fail.
 */
#ifndef EXGEN_OS_H
#define EXGEN_OS_H

#include "base/platform.h"

/* Counters of what was asked of the system; read without a lock. */
struct os_counters {
    size_t mapped_bytes;      /* now mapped, address map included */
    size_t mapped_peak_bytes; /* highest mapped_bytes so far */
    size_t n_maps;            /* successful mmap and mremap calls */
    size_t n_unmaps;          /* successful munmap calls */
    size_t n_purges;          /* madvise calls that give memory back */
};

/* Find out the page size; call before any other function here. */
void os_init(void);

/* Bytes of a page of the system, a power of two, at least 4096. */
size_t os_page_bytes(void);

/* Map zeroed, private, readable and writable memory.  NULL if refused. */
void *os_map(size_t bytes);

/* As os_map, at a multiple of `alignment` (a power of two). */
void *os_map_aligned(size_t bytes, size_t alignment);

/* Address space that reads as zero; pages of it can be made writable with os_protect, until then
 * the system charges nothing for them.  NULL if refused. */
void *os_reserve_zeros(size_t bytes);

/* Most address space that the process may have, SIZE_MAX if that is not limited. */
size_t os_address_space_bytes(void);

/* Most mappings that the process may have (vm.max_map_count). */
size_t os_most_mappings(void);

/* For once, before os_purge with PURGE_UNMAP: where the system never commits itself to more memory
 * than it has (vm.overcommit_memory 2), that is as PURGE_DONTNEED. */
void os_init_unmapping(void);

/* Give address space back.  False if the system refused: then it stays, without its contents. */
bool os_unmap(void *start, size_t bytes);

/* Drop whole pages and forbid all access to their addresses, which stay taken.  False if the system
 * refused. */
bool os_retire(void *start, size_t bytes);

/* Drop the contents of the whole pages inside the range, as the setting purge_how says;
 * something stays mapped there.  PURGE_FREE: the system may wait until it needs memory
 * (contents undefined until then).  True if the system took them. */
bool os_purge(void *start, size_t bytes, uint64_t how);

/* Make a range of the caller's own zero that begins with a page; pages that were never written,
 * or are zero, are left so. */
void os_clear(void *start, size_t bytes);

/* Touch every page for writing, so that later use takes no page fault. */
void os_populate(void *start, size_t bytes);

/* Grow or shrink a mapping, moving it if need be.  NULL if refused. */
void *os_remap(void *start, size_t old_bytes, size_t new_bytes);

/* Move the pages of [start, start + old_bytes) into a new mapping of new_bytes
 * without copying; the old range stays mapped and reads as zero.  NULL if refused
 * (kernels before 5.7 do). */
void *os_move_out(void *start, size_t old_bytes, size_t new_bytes);

/* Forbid all access to pages, or allow reading and writing.  False if refused. */
bool os_protect(void *start, size_t bytes, bool forbid);

enum {
    HUGE_BYTES = 2097152 /* of a huge page, with pages of 4 KiB */
};

/* Ask for huge pages (true) or against them (false). */
void os_advise_huge(void *start, size_t bytes, bool want);

/* Milliseconds of a clock that never goes back. */
uint64_t os_clock_ms(void);

/* Let the calling thread rest; for the library's own. */
void os_sleep_ms(uint64_t ms);

/* Make every thread of the process pass a full memory fence.  False where the system cannot do
 * that, or not soon. */
bool os_fence_threads(void);

/* Whether the calling thread is past its last destructors, as far as can be seen: glibc (2.35 and
 * later) blocks a signal of its own then. */
bool os_thread_ends(void);

/* A number that an attacker cannot guess. */
uint64_t os_random(void);

struct os_counters os_read_counters(void);

#endif
