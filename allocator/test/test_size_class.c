/* test_size_class.c - the class tables are tight for every spacing. */
#include "memory/size_class.h"
#include "memory/superblock.h"
#include "test.h"

static void check_spacing(const struct options *o) {
    static struct size_classes c;
    size_t n_units = o->superblock_size / UNIT_BYTES;
    c = (struct size_classes){0};
    size_class_init(&c, o, n_units);
    EXPECT(size_classes_are_valid(&c));
    EXPECT(c.n_classes <= N_CLASSES_MAX);
    for (size_t i = 0; i < c.n_classes; i++) {
        const struct size_class *of = &c.of[i];
        EXPECT(of->block_bytes % of->alignment == 0 && of->alignment >= 16);
        EXPECT(of->carve_blocks >= 1 && of->n_units >= 1);
        EXPECT(n_units == 1 || of->n_units < n_units);
    }
}

/* Four blocks of the largest class fit into a superblock, where its rule would allow more. */
static void largest_is_a_quarter_of_a_superblock(void) {
    static struct size_classes c;
    struct text ignored = {NULL, 0, 0};
    struct options o;
    options_parse(&o, "small_max:32768,superblock_size:65536,class_steps:8", &ignored);
    size_class_init(&c, &o, o.superblock_size / UNIT_BYTES);
    EXPECT(c.largest == 65536 / 4);
}

/* Of the default all have the fast path, of finer settings none that has no list for it. */
static void classes_are_quick(void) {
    static struct size_classes c;
    struct text ignored = {NULL, 0, 0};
    struct options o;
    options_parse(&o, "", &ignored);
    size_class_init(&c, &o, o.superblock_size / UNIT_BYTES);
    EXPECT(c.largest == QUICK_MAX);
    EXPECT(c.quick[QUICK_MAX >> FINE_SHIFT] == c.n_classes - 1);
    options_parse(&o, "class_steps:8,coarse_steps:16", &ignored);
    size_class_init(&c, &o, o.superblock_size / UNIT_BYTES);
    EXPECT(c.quick[FINE_MAX >> FINE_SHIFT] == N_QUICK_CLASSES - 1);
    EXPECT(c.quick[(FINE_MAX >> FINE_SHIFT) + 1] == CLASS_NOT_QUICK);
    options_parse(&o, "small_max:2048,class_over:0", &ignored);
    size_class_init(&c, &o, o.superblock_size / UNIT_BYTES);
    EXPECT(c.largest == FINE_MAX && c.quick[QUICK_MAX >> FINE_SHIFT] == CLASS_NOT_QUICK);
}

/* For every size that a class can have and every offset in the largest slab. */
static void numbers_need_no_division(void) {
    enum {
        SLAB_BYTES = LISTED_UNITS_MAX * UNIT_BYTES
    };
    for (size_t bytes = BLOCK_ALIGNMENT; bytes <= SMALL_LIMIT; bytes += BLOCK_ALIGNMENT) {
        uint32_t inverse = size_class_inverse(bytes);
        for (size_t n = 0; n * bytes < SLAB_BYTES; n++) {
            size_t last = (n + 1) * bytes - BLOCK_ALIGNMENT;
            EXPECT(size_class_number(inverse, n * bytes) == n);
            EXPECT(size_class_number(inverse, last) == n || last >= SLAB_BYTES);
        }
    }
}

int main(void) {
    struct text ignored = {NULL, 0, 0};
    struct options o;
    largest_is_a_quarter_of_a_superblock();
    numbers_need_no_division();
    classes_are_quick();
    for (uint64_t quantum = 16; quantum <= 128; quantum *= 2)
        for (uint64_t steps = 1; steps <= 8; steps *= 2)
            for (uint64_t coarse = 1; coarse <= 16; coarse *= 2)
                for (uint64_t small = 2048; small <= 32768; small *= 2)
                    for (uint64_t superblock = 16384; superblock <= 8388608; superblock *= 8) {
                        options_parse(&o, "", &ignored);
                        o.quantum = quantum;
                        o.class_steps = steps;
                        o.coarse_steps = coarse;
                        o.small_max = small;
                        o.superblock_size = superblock;
                        for (o.class_over = 0; o.class_over <= 2; o.class_over++)
                            check_spacing(&o);
                    }
    return test_passed();
}
