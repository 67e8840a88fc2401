/* warm.h - makes the kernel's free memory memory that was used before.
 *
 * In a virtual machine the first touch of a page since it started costs the host's fault
 * too, several times what the guest's costs.  Whatever is timed needs pages that were
 * touched and given back: the kernel hands those out again first.
 */
#ifndef RAND_MALLOC_WARM_H
#define RAND_MALLOC_WARM_H

#include <stdint.h>

struct warmed {
    uint64_t bytes;     /* touched; 0 if there was no room */
    double ns_per_page; /* processor time of a first touch; 0 without one */
};

/* Touches that many bytes of small pages at once and gives them back.  Takes at most a
 * quarter of what is free for this process by /proc/meminfo and its control group. */
struct warmed memory_warm(uint64_t bytes);

#endif
