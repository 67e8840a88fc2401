/* Free memory that the host of a virtual machine has to hand: huge pages that were touched.
 *
 * Linux reports free memory to the host after two seconds, in blocks of huge pages, and the host
 * takes it back (free page reporting, mm/page_reporting.c).  The next touch of such a huge page
 * costs the host as many faults as it has small pages, some milliseconds, which falls to the
 * first run after a pause.  The kernel hands out first what was given back last. */
#ifndef SUPERVISE_TOUCH_H
#define SUPERVISE_TOUCH_H

#include <stdint.h>

/* Touch so many bytes of huge pages, as far as the system has any, and give them back.  Takes at
 * most a quarter of what is free for this process. */
void touch_huge_pages(uint64_t bytes);

#endif
