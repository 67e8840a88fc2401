/* spare.h - segments of the exchange (exchange.h) that a thread holds for the blocks it frees next.
 *
 * A thread that only allocates empties segments, one that only frees fills them: so the stack of
 * those that are unused is changed once for several.
 */
#ifndef EXGEN_SPARE_H
#define EXGEN_SPARE_H

#include <stdint.h>

/* The first and the last mean nothing if there are none. */
struct spare {
    uint32_t first; /* number of a segment; the others through `below` of each */
    uint32_t last;
    uint32_t n;
};

#endif
