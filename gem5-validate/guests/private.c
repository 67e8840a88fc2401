/* Threads that share nothing: each allocates batches of blocks of its own and frees them.
 *
 * The work of threadtest: E. D. Berger, K. S. McKinley, R. D. Blumofe, P. R. Wilson, "Hoard",
 * ASPLOS 2000, section 5.2.
 */
#include "crew.h"

enum {
    BATCH = 64,
    LEAST = 16,
    RANGE = 240
};

static uint64_t work(size_t member) {
    uint64_t state = 20 + member, checksum = 0;
    for (size_t step = 0; step < crew.scale; step++) {
        unsigned char *blocks[BATCH];
        for (size_t i = 0; i < BATCH; i++) {
            size_t bytes = LEAST + next_random(&state) % RANGE;
            blocks[i] = need(bytes);
            blocks[i][0] = blocks[i][bytes - 1] = (unsigned char)bytes;
        }
        for (size_t i = 0; i < BATCH; i++) {
            checksum += blocks[i][0];
            free(blocks[i]);
        }
    }
    return checksum;
}

int main(int n_arguments, char **arguments) {
    crew_read(n_arguments, arguments);
    return crew_run("private", work);
}
