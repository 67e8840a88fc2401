/* guard.h - pages without access, with the setting secure.
 *
 * They lie behind slabs, at both ends of superblocks' blocks and behind large blocks.  Linux bounds
 * the mappings of a process (vm.max_map_count), and each guard makes two of them: itself and what
 * it cuts off.  So slabs and large blocks have guards for half of that bound; one line on stderr
 * says so when they are used up, and blocks made then have none, until some are given back.
 */
#ifndef EXGEN_GUARD_H
#define EXGEN_GUARD_H

#include "base/platform.h"

/* Find out how many guards there may be; before the first block, with `secure`. */
void guard_init(void);

/* Bytes that a guard takes from the end of a slab or head: a page, or 0 without `secure` and where
 * a page is most of a unit. */
size_t guard_bytes(void);

/* Bytes that a guard takes behind a large block: a page, or 0 without `secure`. */
size_t guard_bytes_of_large(void);

/* Are guards left for a slab or large block? */
bool guard_is_left(void);

/* Forbid all access to the last page before `end`; false if no guard is left. */
bool guard_last_page(char *end);

/* Allow it again, if it was forbidden; false if the system refuses. */
bool unguard_last_page(char *end);

/* A guarded page was unmapped. */
void guard_unmapped(void);

#endif
