/* test_colour.c - heads of superblocks lie at several places, and everything finds them there. */
#include "exgen.h"
#include "memory/superblock.h"
#include "test.h"

enum {
    N_BLOCKS = 5000,
    BLOCK_BYTES = 8192,
    N_PLACES = 6 /* a table of slabs apart, of which some are colours */
};

static char *blocks[N_BLOCKS];

static size_t colour_of(const char *block) {
    const struct superblock *sb = superblock_of((uintptr_t)block);
    size_t table = layout.n_units * sizeof(struct slab);
    size_t offset = (size_t)((const char *)sb - superblock_start(sb));
    EXPECT(offset % table == 0 && offset / table < N_PLACES);
    EXPECT(block > (const char *)(sb + 1) && block < superblock_start(sb) + layout.bytes);
    EXPECT(superblock_of((uintptr_t)slab_of((uintptr_t)block)) == sb);
    EXPECT(slab_of((uintptr_t)block) >= sb->slab &&
           slab_of((uintptr_t)block) < sb->slab + sb->n_units);
    return offset / table;
}

int main(void) {
    size_t n_of[N_PLACES] = {0};
    for (size_t i = 0; i < N_BLOCKS; i++) {
        blocks[i] = exgen_malloc(BLOCK_BYTES);
        n_of[colour_of(blocks[i])]++;
    }
    size_t n_colours = 0;
    for (size_t i = 0; i < N_PLACES; i++)
        n_colours += n_of[i] > 0;
    EXPECT(n_colours > 1);
    EXPECT(exgen_validate_heap());
    for (size_t i = 0; i < N_BLOCKS; i++)
        exgen_free(blocks[i]);
    exgen_purge();
    EXPECT(exgen_validate_heap());
    return test_passed();
}
