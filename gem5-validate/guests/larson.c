/* A server's threads: each replaces blocks at random in a set, and sets go from thread to thread,
 * so that many blocks are freed by another thread than allocated them.
 *
 * The work of larson: P.-A. Larson, M. Krishnan, "Memory Allocation for Long-Running Server
 * Applications", ISMM 1998, section 4.1; here threads stay and the sets move on.
 */
#include "crew.h"

enum {
    BLOCKS = 64,
    LEAST = 16,
    RANGE = 496
};

static unsigned char *sets[MOST_MEMBERS][BLOCKS];

/* Replace as many blocks of a set as it has. */
static uint64_t replace(unsigned char **set, uint64_t *state) {
    uint64_t checksum = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        uint64_t bits = next_random(state);
        unsigned char **place = &set[bits % BLOCKS];
        checksum += *place ? (*place)[0] : 0;
        free(*place);
        size_t bytes = LEAST + (bits >> 32) % RANGE;
        *place = need(bytes);
        (*place)[0] = (*place)[bytes - 1] = (unsigned char)bytes;
    }
    return checksum;
}

static uint64_t work(size_t member) {
    uint64_t state = 30 + member, checksum = 0;
    for (size_t step = 0; step < crew.scale; step++) {
        checksum += replace(sets[(member + step) % crew.n_members], &state);
        crew_meet();
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(sets[member][i]);
    return checksum;
}

int main(int n_arguments, char **arguments) {
    crew_read(n_arguments, arguments);
    return crew_run("larson", work);
}
