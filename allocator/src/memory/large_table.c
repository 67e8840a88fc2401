/* large_table.c - how descriptions of large blocks come, go and change; see large_table.h. */
#include "memory/large_table.h"

/* --- descriptions --- */

COLD size_t large_table_growth(const struct large_table *t) {
    size_t heads_bytes = (size_t)2 * HEADS_FOR_EACH * sizeof(struct large_block *);
    return t->n_all * (sizeof *t->fresh + heads_bytes);
}

static void begin(struct large_table *t, struct large_block **heads, struct large_block *fresh,
                  size_t n) {
    t->heads = heads;
    t->fresh = fresh;
    t->fresh_end = fresh + n;
    t->n_all += n;
    t->n_free += n;
    t->shift = 64 - log2_floor(HEADS_FOR_EACH * t->n_all);
}

void large_table_begin(struct large_table *t) {
    begin(t, t->first_heads, t->first, N_FIRST_LARGE);
}

COLD void large_table_grow(struct large_table *t, void *memory) {
    struct large_block **heads = t->heads;
    size_t n = t->n_all;
    for (; t->fresh < t->fresh_end; t->n_free--)
        large_forget(t, t->fresh++);
    begin(t, (struct large_block **)((struct large_block *)memory + n), memory, n);
    for (size_t i = 0; i < HEADS_FOR_EACH * n; i++)
        for (struct large_block *b = heads[i], *next; b != NULL; b = next) {
            next = b->next;
            large_insert(t, b);
        }
}

/* --- neighbours --- */

static void set_behind(struct large_block *b, struct large_block *behind) {
    b->behind = behind;
    if (behind != NULL)
        behind->before = b;
}

void large_arrive(struct large_table *t, struct large_block *b) {
    b->before = NULL;
    set_behind(b, large_find(t, b->start + b->bytes));
    large_insert(t, b);
}

void large_depart(struct large_table *t, struct large_block *b) {
    large_erase(t, b);
    if (b->before != NULL)
        b->before->behind = NULL;
    if (b->behind != NULL)
        b->behind->before = NULL;
}

struct large_block *large_split(struct large_table *t, struct large_block *b, size_t bytes) {
    struct large_block *rest = large_describe(t);
    rest->start = b->start + bytes;
    rest->bytes = b->bytes - bytes;
    rest->seen_ms = b->seen_ms;
    rest->age = b->age;
    rest->is_guarded = false;
    b->bytes = bytes;
    set_behind(rest, b->behind);
    set_behind(b, rest);
    large_insert(t, rest);
    return rest;
}

void large_join(struct large_table *t, struct large_block *b) {
    struct large_block *behind = b->behind;
    if (behind->bytes > b->bytes) {
        b->seen_ms = behind->seen_ms;
        b->age = behind->age;
    }
    b->bytes += behind->bytes;
    set_behind(b, behind->behind);
    large_erase(t, behind);
    large_forget(t, behind);
}

void large_move_end(struct large_table *t, struct large_block *b, size_t bytes) {
    struct large_block *behind = b->behind;
    large_erase(t, behind);
    b->bytes += bytes;
    behind->start += bytes;
    behind->bytes -= bytes;
    large_insert(t, behind);
}

/* Whether the neighbours of a block know it, too. */
static bool has_good_neighbours(const struct large_block *b) {
    const struct large_block *behind = b->behind;
    bool is_behind = b->before == NULL || b->before->behind == b;
    bool is_before =
        behind == NULL || (behind->before == b && behind->start == b->start + b->bytes);
    return is_behind && is_before;
}

bool large_table_is_valid(struct large_table *t) {
    size_t n = 0;
    size_t n_heads = t->heads == NULL ? 0 : HEADS_FOR_EACH * t->n_all;
    for (size_t i = 0; i < n_heads; i++)
        for (const struct large_block *b = t->heads[i]; b != NULL; b = b->next) {
            n++;
            if (large_find(t, b->start) != b || !has_good_neighbours(b))
                return false;
        }
    return n + t->n_free <= t->n_all;
}
