/* retired.h - addresses of freed large blocks that are not used again for a while, with the setting
 * secure.
 *
 * The memory goes back at once; the addresses stay taken, without access, until N_RETIRED others
 * have come, memory is short or all that is free goes back.  So a use after the free ends in
 * SIGSEGV and not in another block.
 */
#ifndef EXGEN_RETIRED_H
#define EXGEN_RETIRED_H

#include "base/platform.h"

enum {
    N_RETIRED = 64,
    RETIRED_PAGES_MOST = 1024 /* of one block; larger ones are unmapped at once */
};

/* Give the memory of whole pages back, and the addresses some time later. */
void retired_add(void *start, size_t bytes);

/* Give all addresses back. */
void retired_give_back(void);

#endif
