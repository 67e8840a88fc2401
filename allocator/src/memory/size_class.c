/* size_class.c - fill the tables from sizes to classes; see size_class.h. */
#include "memory/size_class.h"

#include "memory/slab.h"

struct size_classes classes;

/* With quantum 16: 8 classes up to 128, 8 for each doubling up to 1 KiB, then 16 + 2. */
_Static_assert(N_CLASSES_MAX >= 8 + 3 * 8 + 5 * 18, "the finest settings must fit");
_Static_assert(N_QUICK_CLASSES >= 8 + 3 * 8 + 18, "the finest settings must fit");
_Static_assert(FINE_MAX / 64 >= 1 << COARSE_SHIFT, "the finest coarse step must be distinct");
_Static_assert((int)N_CLASSES_MAX >= (int)N_LISTED_MAX &&
                   (int)N_QUICK_CLASSES >= (int)N_LISTED_FINE_MAX,
               "every list must fit");
_Static_assert((int)FINE_MAX == (int)LISTED_FINE && (int)SMALL_LIMIT == (int)LISTED_MAX,
               "listed sizes must be distinct");
_Static_assert((int)N_CLASSES_MAX < (int)CLASS_TRAY, "class numbers must fit a byte");

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The class size after `bytes`. */
static size_t next_size(size_t bytes, const struct options *o) {
    size_t base = (size_t)1 << log2_floor(bytes);
    size_t steps = bytes < STEPS_MAX ? o->class_steps : o->coarse_steps;
    size_t step = larger(base / steps, o->quantum);
    size_t next = base + ((bytes - base) / step + 1) * step;
    if (bytes < STEPS_MAX)
        return next;
    for (size_t i = 0; i < o->class_over; i++) {
        size_t over = base + round_up(base / 64 * (i == 0 ? 1 : 5), o->quantum);
        if (over > bytes && over < next)
            next = over;
    }
    return next;
}

/* Units for one block, and its guard page. */
static size_t least_units(size_t bytes, const struct options *o) {
    size_t guard = o->secure ? UNIT_BYTES / 4 : 0;
    return (bytes + guard + UNIT_BYTES - 1) / UNIT_BYTES;
}

/* Bytes between the last block of a slab and the end of its page: touched, of no use. */
static size_t tail_bytes(size_t n_units, size_t bytes) {
    size_t end = n_units * UNIT_BYTES / bytes * bytes;
    return round_up(end, SLAB_ALIGNMENT_MAX) - end;
}

static bool has_small_tail(size_t n_units, size_t bytes) {
    return tail_bytes(n_units, bytes) <= n_units * UNIT_BYTES / 32;
}

/* Units of a slab: `most`, or if it leaves more than 1/32 of that idle, at least half as many
 * with the smallest tail for each. */
static size_t best_units(size_t least, size_t most, size_t bytes) {
    size_t best = most;
    if (has_small_tail(most, bytes))
        return most;
    for (size_t n = most; n-- > larger(least, most / 2 + 1);)
        if (tail_bytes(n, bytes) * best < tail_bytes(best, bytes) * n)
            best = n;
    return best;
}

size_t size_class_most_units(size_t superblock_units) {
    return larger(1, superblock_units / 4);
}

static size_t slab_units(size_t bytes, const struct options *o, size_t superblock_units) {
    size_t least = least_units(bytes, o);
    size_t most =
        larger(least, smaller(o->slab_units_max, size_class_most_units(superblock_units)));
    size_t n = least;
    while (n < most && n * UNIT_BYTES / bytes < o->slab_blocks)
        n++;
    return best_units(least, n, bytes);
}

static struct size_class describe(size_t bytes, const struct options *o, size_t superblock_units) {
    size_t n_units = slab_units(bytes, o, superblock_units);
    struct size_class c = {
        .block_bytes = (uint32_t)bytes,
        .carve_blocks = (uint32_t)larger(1, o->commit_step / bytes),
        .n_units = (uint32_t)n_units,
        .alignment = (uint32_t)smaller(bytes & (~bytes + 1), SLAB_ALIGNMENT_MAX),
        .inverse = size_class_inverse(bytes),
    };
    c.n_start_units = c.n_units;
    for (size_t n = n_units; n > 0; n = size_class_fewer_units(&c, n))
        c.n_start_units = (uint32_t)n;
    return c;
}

/* The classes of the setting `classes`, up to `largest` bytes; returns their number. */
static size_t describe_listed(struct size_class *of, const struct options *o, size_t largest,
                              size_t superblock_units) {
    size_t n = 0;
    for (; n < o->classes && o->listed[n].bytes <= largest; n++) {
        size_t bytes = o->listed[n].bytes;
        of[n] = describe(bytes, o, superblock_units);
        size_t least = least_units(bytes, o);
        size_t most = larger(least, superblock_units / 4);
        if (o->listed[n].n_units != 0)
            of[n].n_units = of[n].n_start_units =
                (uint32_t)smaller(larger(o->listed[n].n_units, least), most);
    }
    return n;
}

/* Largest class of the rule: small_max, and what class_over says just above it. */
static size_t largest_by_rule(const struct options *o) {
    size_t over = o->small_max < SMALL_LIMIT ? o->small_max / 64 * 5 : 0;
    return o->small_max + over;
}

/* The classes that follow from the rule; returns their number. */
static size_t describe_by_rule(struct size_class *of, const struct options *o, size_t largest,
                               size_t superblock_units) {
    size_t n = 0;
    for (size_t bytes = o->quantum; bytes <= largest; bytes = next_size(bytes, o))
        of[n++] = describe(bytes, o, superblock_units);
    return n;
}

void size_class_init(struct size_classes *c, const struct options *o, size_t superblock_units) {
    size_t quarter = superblock_units * UNIT_BYTES / 4;
    size_t n = o->classes != 0 ? describe_listed(c->of, o, quarter, superblock_units)
                               : describe_by_rule(c->of, o, smaller(largest_by_rule(o), quarter),
                                                  superblock_units);
    c->n_classes = n;
    c->first_line = 0;
    while (c->first_line < n && c->of[c->first_line].block_bytes < CACHE_LINE)
        c->first_line++;
    c->largest = c->of[n - 1].block_bytes;

    size_t class = 0;
    for (size_t i = 0; i <= QUICK_MAX >> FINE_SHIFT; i++) {
        while (class < n && c->of[class].block_bytes < i << FINE_SHIFT)
            class ++;
        bool is_quick = class < n && class < N_QUICK_CLASSES;
        uint8_t quick = (uint8_t)(is_quick ? class : CLASS_NOT_QUICK);
        __atomic_store_n(&c->quick[i], quick, __ATOMIC_RELAXED);
    }
    class = c->quick[FINE_MAX >> FINE_SHIFT];
    for (size_t i = FINE_MAX >> COARSE_SHIFT; i < c->largest >> COARSE_SHIFT; i++) {
        while (c->of[class].block_bytes < (i + 1) << COARSE_SHIFT)
            class ++;
        c->coarse[i] = (uint8_t) class;
    }
    ASSERT(size_classes_are_valid(c));
}

size_t size_class_fewer_units(const struct size_class *c, size_t n_units) {
    size_t least = least_units(c->block_bytes, &options);
    for (size_t n = n_units - 1; n >= least; n--)
        if (has_small_tail(n, c->block_bytes))
            return n;
    return 0;
}

size_t class_of_aligned(size_t size, size_t alignment) {
    if (size > classes.largest || alignment > SLAB_ALIGNMENT_MAX)
        return CLASS_NONE;
    for (size_t class = class_of(size); class < classes.n_classes; class ++)
        if (classes.of[class].alignment >= alignment)
            return class;
    return CLASS_NONE;
}

static bool fits_tightly(const struct size_classes *c, size_t class, size_t size) {
    return class < c->n_classes && c->of[class].block_bytes >= size &&
           (class == 0 || c->of[class - 1].block_bytes < size);
}

bool size_classes_are_valid(const struct size_classes *c) {
    if (c->n_classes == 0 || c->n_classes > N_CLASSES_MAX)
        return false;
    for (size_t i = 0; i < c->n_classes; i++)
        if (c->of[i].block_bytes % 16 != 0 ||
            c->of[i].n_units * UNIT_BYTES < c->of[i].block_bytes ||
            (i > 0 && c->of[i].block_bytes <= c->of[i - 1].block_bytes))
            return false;
    for (size_t size = 1; size <= QUICK_MAX; size++) {
        size_t class = c->quick[(size + 15) >> FINE_SHIFT];
        bool is_slow = class == CLASS_NOT_QUICK && size > FINE_MAX;
        bool has_class = size <= c->largest && c->coarse[(size - 1) >> COARSE_SHIFT] < class;
        if (is_slow ? has_class : !fits_tightly(c, class, size))
            return false;
    }
    for (size_t size = FINE_MAX + 1; size <= c->largest; size++)
        if (!fits_tightly(c, c->coarse[(size - 1) >> COARSE_SHIFT], size))
            return false;
    return c->quick[0] == 0;
}
