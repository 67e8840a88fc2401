/* guard.c - guard pages; see guard.h.
 *
 * A guard that the system refuses, because the process has too many mappings, is left out.
 */
#include "memory/guard.h"

#include "base/options.h"
#include "memory/layout.h"
#include "system/os.h"

size_t guard_bytes(void) {
    bool fits = os_page_bytes() <= UNIT_BYTES / 4;
    return options.secure && fits ? os_page_bytes() : 0;
}

void guard_last_page(char *end) {
    size_t bytes = guard_bytes();
    if (bytes > 0)
        os_protect(end - bytes, bytes, true);
}

void unguard_last_page(char *end) {
    size_t bytes = guard_bytes();
    if (bytes > 0 && !os_protect(end - bytes, bytes, false))
        fatal("the system does not let a guard page go", end - bytes);
}
