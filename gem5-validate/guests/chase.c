/* Follows pointers in a ring through all of 4 * SCALE cache lines in random order, ten rounds.
 *
 * Source: S. Sattolo, "An algorithm to generate a random cyclic permutation", Information
 * Processing Letters 22, 1986.
 */
#include "guest.h"

enum {
    LINE_BYTES = 64,
    N_ROUNDS = 10,
    LINES_PER_SCALE = 4
};

struct line {
    struct line *next;
    uint64_t value;
    char rest[LINE_BYTES - sizeof(void *) - sizeof(uint64_t)];
};

int main(int n_arguments, char **arguments) {
    size_t n_lines = LINES_PER_SCALE * read_scale(n_arguments, arguments);
    struct line *lines = need(n_lines * sizeof *lines);
    size_t *order = need(n_lines * sizeof *order);
    uint64_t state = 6;
    for (size_t i = 0; i < n_lines; i++)
        order[i] = i;
    for (size_t i = n_lines - 1; i > 0; i--) {
        size_t other = (size_t)(next_random(&state) % i);
        size_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < n_lines; i++)
        lines[i] = (struct line){.next = &lines[order[i]], .value = i};
    uint64_t checksum = 0;
    struct line *line = lines;
    for (size_t step = 0; step < N_ROUNDS * n_lines; step++) {
        checksum = checksum * 31 + line->value++;
        line = line->next;
    }
    return finish("chase", checksum);
}
