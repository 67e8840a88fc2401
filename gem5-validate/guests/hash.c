/* Counts SCALE random words in a hash table with chains, which doubles when it is full. */
#include <string.h>

#include "guest.h"

struct entry {
    struct entry *next;
    uint64_t key;
    uint64_t count;
};

struct table {
    struct entry **chains;
    size_t n_chains; /* a power of two */
    size_t n_entries;
};

static size_t chain_of(const struct table *table, uint64_t key) {
    uint64_t state = key;
    return (size_t)next_random(&state) & (table->n_chains - 1);
}

static struct entry **new_chains(size_t n_chains) {
    struct entry **chains = need(n_chains * sizeof(struct entry *));
    memset(chains, 0, n_chains * sizeof(struct entry *));
    return chains;
}

static void grow(struct table *table) {
    struct table wider = {new_chains(table->n_chains * 2), table->n_chains * 2, table->n_entries};
    for (size_t i = 0; i < table->n_chains; i++) {
        struct entry *next;
        for (struct entry *entry = table->chains[i]; entry != NULL; entry = next) {
            size_t chain = chain_of(&wider, entry->key);
            next = entry->next;
            entry->next = wider.chains[chain];
            wider.chains[chain] = entry;
        }
    }
    free(table->chains);
    *table = wider;
}

static void count(struct table *table, uint64_t key) {
    struct entry *entry = table->chains[chain_of(table, key)];
    while (entry != NULL && entry->key != key)
        entry = entry->next;
    if (entry != NULL) {
        entry->count++;
        return;
    }
    if (table->n_entries++ == table->n_chains)
        grow(table);
    entry = need(sizeof *entry);
    size_t chain = chain_of(table, key);
    *entry = (struct entry){table->chains[chain], key, 1};
    table->chains[chain] = entry;
}

int main(int n_arguments, char **arguments) {
    size_t n_words = read_scale(n_arguments, arguments);
    struct table table = {new_chains(64), 64, 0};
    uint64_t state = 2;
    for (size_t i = 0; i < n_words; i++) {
        uint64_t word = next_random(&state);
        count(&table, word % 4 == 0 ? word : word % (n_words / 2 + 1)); /* some are rare */
    }
    uint64_t checksum = table.n_entries;
    for (size_t i = 0; i < table.n_chains; i++)
        for (struct entry *entry = table.chains[i]; entry != NULL; entry = entry->next)
            checksum += entry->key * entry->count; /* the same in any order */
    return finish("hash", checksum);
}
