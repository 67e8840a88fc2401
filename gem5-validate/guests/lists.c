/* Allocation-heavy: SCALE records in 512 lists; then, SCALE times, walks down a random list,
 * frees what it ends on and pushes a new record.
 *
 * Records have 24 to 151 bytes and are only linked, so every walk visits places that the
 * allocator chose: what it puts between and around them costs cache lines.
 */
#include <string.h>

#include "guest.h"

enum {
    N_LISTS = 512,
    WALK = 6, /* links to follow, at most */
    LEAST_EXTRA = 8,
    EXTRA_RANGE = 128
};

struct record {
    struct record *next;
    uint32_t key;
    uint32_t n_extra;      /* bytes */
    unsigned char extra[]; /* [n_extra] */
};

static void push(struct record **list, uint64_t bits) {
    uint32_t n_extra = LEAST_EXTRA + (uint32_t)(bits >> 32) % EXTRA_RANGE;
    struct record *record = need(sizeof *record + n_extra);
    record->next = *list;
    record->key = (uint32_t)bits;
    record->n_extra = n_extra;
    memset(record->extra, (int)(bits & 0xff), n_extra);
    *list = record;
}

/* Removes the record at the end of the walk; returns a mix of the keys on the way. */
static uint64_t walk_and_remove(struct record **list) {
    uint64_t sum = 0;
    for (int i = 0; i < WALK && *list != NULL && (*list)->next != NULL; i++) {
        sum = sum * 31 + (*list)->key;
        list = &(*list)->next;
    }
    struct record *gone = *list;
    if (gone == NULL)
        return sum;
    sum += gone->extra[0] + (uint64_t)gone->extra[gone->n_extra - 1] * 256;
    *list = gone->next;
    free(gone);
    return sum;
}

int main(int n_arguments, char **arguments) {
    size_t n_records = read_scale(n_arguments, arguments);
    static struct record *lists[N_LISTS];
    uint64_t state = 9, checksum = 0;
    for (size_t i = 0; i < n_records; i++)
        push(&lists[next_random(&state) % N_LISTS], next_random(&state));
    for (size_t i = 0; i < n_records; i++) {
        checksum = checksum * 31 + walk_and_remove(&lists[next_random(&state) % N_LISTS]);
        push(&lists[next_random(&state) % N_LISTS], next_random(&state));
    }
    for (size_t i = 0; i < N_LISTS; i++)
        while (lists[i] != NULL)
            checksum += walk_and_remove(&lists[i]);
    return finish("lists", checksum);
}
