/* touch.h - how much of a large block the program touched.
 *
 * A block of TRACE_TOUCH_LEAST_BYTES or more is numbered when it is allocated.  Its whole pages
 * are given back to the kernel then (what it holds is undefined, or zeros), so that a page
 * that is there when the block ends is one that the program has written.  The answer goes
 * into the spool under the number, where build_trace finds it when it meets the
 * allocation.
 *
 * What is not measured is not known: when time runs short (pages taken from a recycled block
 * have to be cleared again, which may cost more than all else), where the kernel refuses (locked
 * memory), where a huge page hides what was touched, after a kill.  A block's pages count
 * as of its end: that the program gave some back itself is not seen.
 */
#ifndef MALLOC_TUNER_RECORDER_TOUCH_H
#define MALLOC_TUNER_RECORDER_TOUCH_H

#include "base/symbols.h"
#include "trace.h" /* TRACE_TOUCH_LEAST_BYTES */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOUCH_FILTER_BITS = 12,
};

/* How many measured blocks are alive whose address has this hash; sticks at 255.  So a free
 * of another block costs one load. */
extern RECORDER_HIDDEN uint8_t touch_filter[1 << TOUCH_FILTER_BITS];

static inline unsigned touch_hash(const void *block) {
    return (unsigned)((uintptr_t)block >> 4) * 2654435769u >> (32 - TOUCH_FILTER_BITS);
}

static inline bool touch_may_know(const void *block) {
    return __builtin_expect(
        __atomic_load_n(&touch_filter[touch_hash(block)], __ATOMIC_RELAXED) != 0, 0);
}

/* A measured block, in the table of those alive. */
struct touch_block {
    uintptr_t address; /* 0: none */
    size_t size;
    uint32_t zero_pages; /* touched before a realloc copied it, but no longer there: zeros */
    uint32_t number;     /* place of its answer in the spool, 0: none */
};

/* What a realloc must remember of the block as it was. */
struct touch_move {
    struct touch_block old; /* number 0: not measured */
    uintptr_t address;      /* of the old block */
    size_t usable_bytes;    /* of the old block; 0: not known, or no matter */
    uint64_t kept_pages;    /* whole pages touched of what the new block keeps */
    uint32_t touch;         /* answer for the old block, 0: not known */
};

/* Prepares for a process, or for a child of fork.  Without memory nothing is measured. */
RECORDER_HIDDEN void touch_start(void);

/* Measures nothing from here on: in a child that is not recorded. */
RECORDER_HIDDEN void touch_stop(void);

/* A new block of TRACE_TOUCH_LEAST_BYTES or more; returns its number, 0: it is not measured. */
RECORDER_HIDDEN uint32_t touch_begin(const void *block, size_t size);

/* The block is about to be freed; call it where touch_may_know. */
RECORDER_HIDDEN void touch_end(const void *block);

/* Around realloc, where touch_may_know or the new size is large; the second returns the
 * number of the new block. */
RECORDER_HIDDEN void touch_before_realloc(struct touch_move *move, const void *block, size_t size);
RECORDER_HIDDEN uint32_t touch_after_realloc(const struct touch_move *move, const void *moved,
                                             size_t size);

/* Looks at all blocks that are alive: the process is about to end.  In a signal handler that came
 * amid the table's own work it does nothing. */
RECORDER_HIDDEN void touch_survey(void);

#endif
