/* size_class.h - which block size serves a request; tables filled at start.
 *
 * Sizes up to QUICK_MAX are looked up by 16-byte step, others up to SMALL_LIMIT
 * by 32-byte step.  The lookup is one byte load whatever the settings are, so
 * run-time size classes cost nothing.
 *
 * Rule: classes start at `quantum`; from 2^k to 2^(k+1) they are
 * max(2^k / class_steps, quantum) apart, with coarse_steps above STEPS_MAX, where
 * class_over adds 1/64 and 5/64 above 2^k: a power of two and a small header
 * are what programs ask for.
 * Guarantees: sizes are strictly increasing multiples of 16; a request gets the
 * smallest class that holds it; waste inside a block is below
 * max(1 / steps, quantum / size) of the block.
 */
#ifndef EXGEN_SIZE_CLASS_H
#define EXGEN_SIZE_CLASS_H

#include "base/options.h"
#include "base/platform.h"

enum {
    FINE_SHIFT = 4,      /* sizes up to FINE_MAX differ by 16 bytes */
    FINE_MAX = 2048,     /* bytes */
    COARSE_SHIFT = 5,    /* and from there by 32 bytes */
    STEPS_MAX = 1024,    /* bytes; class_steps up to here, then coarse_steps */
    SMALL_LIMIT = 32768, /* bytes; upper bound of small_max */
    QUICK_MAX = 4416,    /* bytes; the fast path of malloc ends here: largest of the default's */
    INVERSE_SHIFT = 31,
    N_QUICK_CLASSES = 50,              /* with the fast path: at least all up to FINE_MAX */
    CLASS_NOT_QUICK = N_QUICK_CLASSES, /* instead of a later class or none: its list is empty */
    N_CLASSES_MAX = 122                /* of the finest settings; see the assert in size_class.c */
};

struct size_class {
    uint32_t block_bytes;   /* multiple of 16 */
    uint32_t carve_blocks;  /* blocks cut from untouched memory at a time, at least 1 */
    uint32_t n_units;       /* units of a slab of this class */
    uint32_t n_start_units; /* ... of its first slabs */
    uint32_t alignment;     /* power of two that divides every block address, 16 to 4096 */
    uint32_t inverse;       /* see size_class_inverse */
};

/* Written once by size_class_init, read-only afterwards. */
struct size_classes {
    uint8_t quick[(QUICK_MAX >> FINE_SHIFT) + 1]; /* class of (size + 15) / 16 */
    uint8_t coarse[SMALL_LIMIT >> COARSE_SHIFT];  /* class of (size - 1) / 32, above FINE_MAX */
    size_t largest;                               /* bytes of the last class */
    size_t n_classes;
    size_t first_line; /* first class with blocks of at least a cache line */
    struct size_class of[N_CLASSES_MAX];
};

extern struct size_classes classes;

/* Most units of a slab of several blocks, whatever slab_units_max says. */
size_t size_class_most_units(size_t superblock_units);

/* Fill `c` for the settings `o`; a superblock has `superblock_units` units. */
void size_class_init(struct size_classes *c, const struct options *o, size_t superblock_units);

/* The next smaller number of units for a slab of the class, with a small tail as well; 0 if there
 * is none. */
size_t size_class_fewer_units(const struct size_class *c, size_t n_units);

/* size <= QUICK_MAX; CLASS_NOT_QUICK only above FINE_MAX.  Atomic, since a thread's first malloc
 * may come while another's fills the table; its list is empty whatever it reads, and the slow path
 * asks again. */
ALWAYS_INLINE size_t class_of_quick(size_t size) {
    return __atomic_load_n(&classes.quick[(size + ((1u << FINE_SHIFT) - 1)) >> FINE_SHIFT],
                           __ATOMIC_RELAXED);
}

/* size <= classes.largest */
ALWAYS_INLINE size_t class_of(size_t size) {
    return size <= FINE_MAX ? class_of_quick(size) : classes.coarse[(size - 1) >> COARSE_SHIFT];
}

/* What size_class_number multiplies with: 2^INVERSE_SHIFT / (block_bytes / 16), rounded up. */
ALWAYS_INLINE uint32_t size_class_inverse(size_t block_bytes) {
    size_t n = block_bytes >> FINE_SHIFT;
    return (uint32_t)((((size_t)1 << INVERSE_SHIFT) + n - 1) / n);
}

/* offset / block_bytes for an offset into a slab, without a division.  Exact: in steps of 16 bytes
 * a slab has at most 2^15 and a block 2^11, and their product is less than 2^INVERSE_SHIFT. */
ALWAYS_INLINE size_t size_class_number(uint32_t inverse, size_t offset) {
    return (offset >> FINE_SHIFT) * inverse >> INVERSE_SHIFT;
}

/* The smallest class that holds `size` and whose blocks all lie at multiples of
 * `alignment` (a power of two); CLASS_NONE if there is none. */
size_t class_of_aligned(size_t size, size_t alignment);

/* Every table entry names the smallest class that fits, and classes increase. */
bool size_classes_are_valid(const struct size_classes *c);

#endif
