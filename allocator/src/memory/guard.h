/* guard.h - pages that nobody may touch, with the setting secure.
 *
 * They lie behind slabs, at both ends of superblocks' blocks and behind large blocks.
 */
#ifndef EXGEN_GUARD_H
#define EXGEN_GUARD_H

#include "base/platform.h"

/* Bytes that a guard takes from the end of a slab or head: a page, or 0 without `secure`. */
size_t guard_bytes(void);

/* Forbid, and allow again, all access to the last page before `end`. */
void guard_last_page(char *end);
void unguard_last_page(char *end);

#endif
