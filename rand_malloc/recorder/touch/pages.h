/* pages.h - which pages of this process's memory are there, as /proc/self/pagemap shows them. */
#ifndef MALLOC_TUNER_RECORDER_PAGES_H
#define MALLOC_TUNER_RECORDER_PAGES_H

#include "base/symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uintptr_t begin;
    uintptr_t end; /* not below begin */
};

/* Prepares for a process, or for a child of fork; false: its pages cannot be known.
 * `written` is a page that is there. */
RECORDER_HIDDEN bool pages_start(const void *written);

RECORDER_HIDDEN size_t pages_bytes(void);

/* The whole pages between two offsets of a block. */
RECORDER_HIDDEN struct range pages_whole(uintptr_t address, size_t from, size_t to);

RECORDER_HIDDEN uint64_t pages_in(struct range range);

/* Adds the pages that were written; false where that cannot be known. */
RECORDER_HIDDEN bool pages_count(struct range range, uint64_t *n_pages);

#endif
