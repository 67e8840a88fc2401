/* Active false sharing: threads take small blocks of their own at the same time and write to them.
 *
 * The work of cache-thrash: E. D. Berger, K. S. McKinley, R. D. Blumofe, P. R. Wilson, "Hoard",
 * ASPLOS 2000, section 5.3 (active-false).
 */
#include "crew.h"

int main(int n_arguments, char **arguments) {
    crew_read(n_arguments, arguments);
    return crew_run("thrash", crew_write_to_small_blocks);
}
