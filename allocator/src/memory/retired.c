/* retired.c - a ring of addresses, each with its length in the bits that are zero in it; see
 * retired.h. */
#include "memory/retired.h"

#include "system/os.h"

/* All state of this module. */
static struct {
    uintptr_t places[N_RETIRED]; /* atomic: start | pages, or 0 */
    size_t n;                    /* atomic: ever added */
} retired;

static void unmap(uintptr_t place) {
    uintptr_t n_pages = place & (os_page_bytes() - 1);
    if (place != 0)
        os_unmap((void *)(place - n_pages), n_pages * os_page_bytes());
}

void retired_add(void *start, size_t bytes) {
    size_t n_pages = bytes / os_page_bytes();
    if (n_pages > RETIRED_PAGES_MOST || !os_retire(start, bytes)) {
        os_unmap(start, bytes);
        return;
    }
    size_t i = __atomic_fetch_add(&retired.n, 1, __ATOMIC_RELAXED) % N_RETIRED;
    unmap(__atomic_exchange_n(&retired.places[i], (uintptr_t)start | n_pages, __ATOMIC_ACQ_REL));
}

void retired_give_back(void) {
    for (size_t i = 0; i < N_RETIRED; i++)
        unmap(__atomic_exchange_n(&retired.places[i], 0, __ATOMIC_ACQ_REL));
}
