/* huge_pages.h - what the kernel did about transparent huge pages during a run.
 *
 * Figures repeat as long as every huge page that an allocator's memory is due is there when it
 * is first touched.  Two things break that: no huge page is free (a fallback to small ones),
 * and khugepaged makes one out of small ones behind the process's back (a collapse).  The
 * kernel counts both in /proc/vmstat for the whole machine only, so either may have concerned
 * another process.  How many pages came with huge ones is found from the readings of the run.
 */
#ifndef RAND_MALLOC_HUGE_PAGES_H
#define RAND_MALLOC_HUGE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define HUGE_PAGES_ATTEMPTS 3 /* runs until one counts although the kernel interfered */

struct run;

struct huge_pages {
    uint64_t fallbacks; /* huge pages that were due and not to be had */
    uint64_t collapses; /* by khugepaged */
};

/* Counts of the machine since it started; 0 where the kernel has none. */
struct huge_pages huge_pages_read(void);
struct huge_pages huge_pages_since(struct huge_pages before);

/* True if figures may not repeat. */
bool huge_pages_interfered(struct huge_pages during);

/* Pages in the region that came with a huge page, beyond the one that was touched: between two
 * readings, what resident memory grew by without a fault of its own, in whole huge pages.  The
 * fewest it can have been: memory given back between the same two readings hides as much. */
uint64_t huge_pages_of_region(const struct run *run);

#endif
