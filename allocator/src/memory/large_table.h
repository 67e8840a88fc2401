/* large_table.h - what is known of large blocks, in use or kept, found by their addresses.
 *
 * A large block has no header.  Its description is in a chain of a hash table (Knuth vol. 3, 6.4,
 * algorithm C, with chains of their own), whose heads are at least twice as many as descriptions,
 * and knows its neighbours, the blocks that begin where it ends and end where it begins.  So a free
 * finds in a few steps what to become one with, however many blocks there are.
 *
 * A description stays where it is.  When they run out there comes a mapping with as many again and
 * with all heads; none is ever unmapped, since they are below a thousandth of the blocks.
 *
 * Source of the multiplier: 2^64 / golden ratio (Knuth vol. 3, 6.4).
 */
#ifndef EXGEN_LARGE_TABLE_H
#define EXGEN_LARGE_TABLE_H

#include "base/platform.h"

enum large_state {
    LARGE_IN_USE,
    LARGE_MOVING, /* its owner is copying it; nobody else's business */
    LARGE_KEPT
};

struct large_block {
    char *start;
    size_t bytes;               /* without the guard */
    struct large_block *next;   /* in its chain, or of those that describe nothing */
    struct large_block *before; /* neighbours; NULL: none, or not known */
    struct large_block *behind;
    uint64_t seen_ms; /* if kept: by the first look of the purger; 0: not yet */
    uint64_t age;     /* if kept: less than of blocks that were kept later */
    uint32_t place;   /* if kept: see large_kept.h */
    uint8_t state;
    bool is_guarded; /* with `secure` */
};

enum {
    N_FIRST_LARGE = 64,    /* descriptions before the first mapping */
    HEADS_FOR_EACH = 2,    /* description */
    LARGE_AT_ONCE_MOST = 2 /* new descriptions that one operation needs, see cut_kept */
};

struct large_table {
    struct large_block **heads; /* HEADS_FOR_EACH * n_all, a power of two; NULL before the first */
    unsigned shift;             /* takes a hash to its chain */
    size_t n_all;               /* descriptions */
    size_t n_free;              /* of them, how many describe nothing: */
    struct large_block *freed;  /* those that did, in a list, and */
    struct large_block *fresh;  /* those from here to the end of their mapping */
    struct large_block *fresh_end;
    struct large_block *first_heads[HEADS_FOR_EACH * N_FIRST_LARGE];
    struct large_block first[N_FIRST_LARGE];
};

ALWAYS_INLINE struct large_block **large_chain(struct large_table *t, const char *start) {
    return &t->heads[((uintptr_t)start >> 12) * 0x9e3779b97f4a7c15u >> t->shift];
}

/* The block, in use or kept, that begins at `start`; NULL if none does. */
ALWAYS_INLINE struct large_block *large_find(struct large_table *t, const char *start) {
    if (unlikely(t->heads == NULL))
        return NULL;
    struct large_block *b = *large_chain(t, start);
    while (b != NULL && b->start != start)
        b = b->next;
    return b;
}

ALWAYS_INLINE void large_insert(struct large_table *t, struct large_block *b) {
    struct large_block **chain = large_chain(t, b->start);
    b->next = *chain;
    *chain = b;
}

ALWAYS_INLINE void large_erase(struct large_table *t, const struct large_block *b) {
    struct large_block **link = large_chain(t, b->start);
    while (*link != b)
        link = &(*link)->next;
    *link = b->next;
}

/* --- descriptions --- */

/* Whether descriptions are at hand for all that one operation needs. */
ALWAYS_INLINE bool large_has_room(const struct large_table *t) {
    return t->n_free >= LARGE_AT_ONCE_MOST;
}

ALWAYS_INLINE struct large_block *large_describe(struct large_table *t) {
    struct large_block *b = t->freed;
    if (b != NULL)
        t->freed = b->next;
    else
        b = t->fresh++;
    t->n_free--;
    return b;
}

ALWAYS_INLINE void large_forget(struct large_table *t, struct large_block *b) {
    b->next = t->freed;
    t->freed = b;
    t->n_free++;
}

/* Bytes, all zero, that the table needs to grow. */
size_t large_table_growth(const struct large_table *t);

/* Use what lies in the table itself. */
void large_table_begin(struct large_table *t);

/* Use `memory` of large_table_growth bytes, for ever. */
void large_table_grow(struct large_table *t, void *memory);

/* --- neighbours --- */

/* Describe new memory that is not a part of a known block.  What ends where it begins stays
 * unknown: the system puts new mappings below others. */
void large_arrive(struct large_table *t, struct large_block *b);

/* Its memory is about to go. */
void large_depart(struct large_table *t, struct large_block *b);

/* Let a block end after `bytes`; a new one of the same age has the rest. */
struct large_block *large_split(struct large_table *t, struct large_block *b, size_t bytes);

/* Let a block and the one behind it be one, which is as old as the larger of the two: what comes
 * and goes beside memory that nobody uses does not keep that. */
void large_join(struct large_table *t, struct large_block *b);

/* Let a block end so many bytes later, and the longer one behind it begin there. */
void large_move_end(struct large_table *t, struct large_block *b, size_t bytes);

/* The table itself, and that neighbours are some. */
bool large_table_is_valid(struct large_table *t);

#endif
