/* added_work: a preloaded library that adds a known amount of work to a program.
 *
 * Before main, it steps a congruential generator ADDED_WORK times; each step needs the one before,
 * so the time of a step is that of a multiplication and an addition.  Allocates nothing.
 */
#include <stdint.h>
#include <stdlib.h>

static volatile uint64_t kept;

__attribute__((constructor)) static void add_work(void) {
    const char *text = getenv("ADDED_WORK");
    uint64_t n_steps = text == NULL ? 0 : strtoull(text, NULL, 10);
    uint64_t state = 1;
    for (uint64_t i = 0; i < n_steps; i++)
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    kept = state;
}
