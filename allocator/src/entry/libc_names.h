/* libc_names.h - the standard names of the functions in entry.c, as aliases.
 *
 * Included once, at the end of entry.c, because an alias must stand in the
 * file of its function.  Tests that run beside the C library's own malloc (under
 * sanitizers) are built with EXGEN_LIBC_NAMES 0 and use the exgen_ names.
 */
#ifndef EXGEN_LIBC_NAMES_H
#define EXGEN_LIBC_NAMES_H

#if EXGEN_LIBC_NAMES

/* A name in an attribute: NOLINTBEGIN(bugprone-macro-parentheses) */
#define STANDARD_NAME(name, function)                                                              \
    extern __typeof__(function) name __attribute__((alias(#function), visibility("default")))
/* NOLINTEND(bugprone-macro-parentheses) */

STANDARD_NAME(malloc, exgen_malloc);
STANDARD_NAME(free, exgen_free);
STANDARD_NAME(calloc, exgen_calloc);
STANDARD_NAME(realloc, exgen_realloc);
STANDARD_NAME(reallocarray, exgen_reallocarray);
STANDARD_NAME(aligned_alloc, exgen_aligned_alloc);
STANDARD_NAME(memalign, exgen_memalign);
STANDARD_NAME(posix_memalign, exgen_posix_memalign);
STANDARD_NAME(valloc, exgen_valloc);
STANDARD_NAME(pvalloc, exgen_pvalloc);
STANDARD_NAME(malloc_usable_size, exgen_malloc_usable_size);
STANDARD_NAME(free_sized, exgen_free_sized);
STANDARD_NAME(free_aligned_sized, exgen_free_aligned_sized);
/* Old names of free that some programs still link to. */
STANDARD_NAME(cfree, exgen_free);
#ifdef __GLIBC__
/* What it exports besides: who calls one frees by the usual name. */
STANDARD_NAME(__libc_malloc, exgen_malloc);
STANDARD_NAME(__libc_free, exgen_free);
STANDARD_NAME(__libc_calloc, exgen_calloc);
STANDARD_NAME(__libc_realloc, exgen_realloc);
STANDARD_NAME(__libc_memalign, exgen_memalign);
STANDARD_NAME(__libc_valloc, exgen_valloc);
STANDARD_NAME(__libc_pvalloc, exgen_pvalloc);
#endif

#endif

#endif
