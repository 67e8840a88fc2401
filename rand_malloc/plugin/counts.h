/* counts.h - what the counting plugin writes to its descriptor at the end mark. */
#ifndef RAND_MALLOC_PLUGIN_COUNTS_H
#define RAND_MALLOC_PLUGIN_COUNTS_H

#include <stdint.h>

#define PLUGIN_COUNTS_MAGIC UINT64_C(0x31544e554f434e49) /* "INCOUNT1" */

struct plugin_counts {
    uint64_t magic;
    uint64_t outside; /* instructions in the region outside of the emulator's text */
    uint64_t own;     /* in it, without its waiting loops */
    uint64_t waiting; /* in the waiting loops */
};

#endif
