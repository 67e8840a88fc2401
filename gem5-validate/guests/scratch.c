/* Passive false sharing: the first thread gives each a small block, neighbours of each other; each
 * frees it and takes blocks of its own, which must not be on the lines that were given.
 *
 * The work of cache-scratch: E. D. Berger, K. S. McKinley, R. D. Blumofe, P. R. Wilson, "Hoard",
 * ASPLOS 2000, section 5.3 (passive-false).
 */
#include "crew.h"

static void *given[MOST_MEMBERS];

static uint64_t work(size_t member) {
    free(given[member]);
    return crew_write_to_small_blocks(member);
}

int main(int n_arguments, char **arguments) {
    enum {
        BYTES = 8
    };
    crew_read(n_arguments, arguments);
    for (size_t i = 0; i < crew.n_members; i++)
        given[i] = need(BYTES);
    return crew_run("scratch", work);
}
