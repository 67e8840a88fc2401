/* link.c - the secret of link.h, and the walk along a list. */
#include "link.h"

#include "os.h"

void link_init(void) {
    layout.link_secret = os_random();
    layout.link_zeros = ~(uintptr_t)0 << ADDRESS_BITS | (BLOCK_ALIGNMENT - 1);
}

size_t link_count(const void *first, size_t limit) {
    size_t n = 0;
    for (const void *block = first; block != NULL && n <= limit; block = link_next(block)) {
        if (!link_is_sound(block))
            return limit + 1;
        n++;
    }
    return n;
}
