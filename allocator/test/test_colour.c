/* test_colour.c - heads of superblocks lie at several places, and everything finds them there. */
#include "exgen.h"
#include "memory/superblock.h"
#include "test.h"

enum {
    N_BLOCKS = 5000,
    BLOCK_BYTES = 8192,
    N_COLOURS = 4
};

static char *blocks[N_BLOCKS];

static size_t colour_of(const char *block) {
    const struct superblock *sb = superblock_of((uintptr_t)block);
    size_t offset = (size_t)((const char *)sb - superblock_start(sb));
    EXPECT(offset % UNIT_BYTES == 0 && offset / UNIT_BYTES < N_COLOURS);
    EXPECT(block > (const char *)(sb + 1) && block < superblock_start(sb) + layout.bytes);
    EXPECT(superblock_of((uintptr_t)slab_of((uintptr_t)block)) == sb);
    EXPECT(slab_of((uintptr_t)block) >= sb->slab &&
           slab_of((uintptr_t)block) < sb->slab + sb->n_units);
    return offset / UNIT_BYTES;
}

int main(void) {
    size_t n_of[N_COLOURS] = {0};
    for (size_t i = 0; i < N_BLOCKS; i++) {
        blocks[i] = exgen_malloc(BLOCK_BYTES);
        n_of[colour_of(blocks[i])]++;
    }
    size_t n_colours = 0;
    for (size_t i = 0; i < N_COLOURS; i++)
        n_colours += n_of[i] > 0;
    EXPECT(n_colours > 1);
    EXPECT(exgen_validate_heap());
    for (size_t i = 0; i < N_BLOCKS; i++)
        exgen_free(blocks[i]);
    exgen_purge();
    EXPECT(exgen_validate_heap());
    return test_passed();
}
