/* Allocates and frees: SCALE steps over a table of blocks, sizes mostly small and now and then
 * large, one in eight resized; every block is written and checked. */
#include <string.h>

#include "guest.h"

enum {
    N_PLACES = 512,
    MAGIC = 0x5a
};

static size_t random_size(uint64_t bits) {
    if (bits % 256 == 0)
        return 4096 + (bits >> 8) % 65536;
    return bits % 16 == 0 ? 256 + (bits >> 8) % 1792 : 8 + (bits >> 8) % 120;
}

struct place {
    unsigned char *block;
    size_t bytes;
};

static void check(const struct place *place) {
    if (place->block != NULL &&
        (place->block[0] != MAGIC || place->block[place->bytes - 1] != MAGIC)) {
        fprintf(stderr, "a block was damaged\n");
        exit(1);
    }
}

int main(int n_arguments, char **arguments) {
    size_t n_steps = read_scale(n_arguments, arguments);
    static struct place places[N_PLACES];
    uint64_t state = 8, checksum = 0;
    for (size_t i = 0; i < n_steps; i++) {
        uint64_t bits = next_random(&state);
        struct place *place = &places[bits % N_PLACES];
        size_t bytes = random_size(bits >> 16);
        check(place);
        if (place->block != NULL && bits >> 61 == 0) {
            place->block = realloc(place->block, bytes);
            if (place->block == NULL)
                return 1;
        } else {
            free(place->block);
            place->block = need(bytes);
        }
        memset(place->block, MAGIC, bytes);
        place->bytes = bytes;
        checksum = checksum * 31 + bytes;
    }
    for (size_t i = 0; i < N_PLACES; i++) {
        check(&places[i]);
        free(places[i].block);
    }
    return finish("blocks", checksum);
}
