/* Counts words in chunks of made-up text with OpenMP tasks, and merges the counts pair by pair.
 * Prints the number of words, of different words, and the most frequent one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BUCKETS = 1024, N_WORDS = 4000 };

struct entry {
    struct entry *next;
    char *word;
    long count;
};

struct table {
    struct entry *buckets[N_BUCKETS];
};

static uint32_t hash(const char *word) {
    uint32_t value = 2166136261u;
    for (; *word; word++)
        value = (value ^ (unsigned char)*word) * 16777619u;
    return value;
}

static void *must(void *block) {
    if (!block)
        abort();
    return block;
}

static void add(struct table *table, const char *word, long count) {
    struct entry **at = &table->buckets[hash(word) % N_BUCKETS];
    while (*at && strcmp((*at)->word, word) != 0)
        at = &(*at)->next;
    if (!*at) {
        *at = must(calloc(1, sizeof(struct entry)));
        (*at)->word = must(strdup(word));
    }
    (*at)->count += count;
}

/* A chunk of text: words of a to p, each chunk with favourites of its own. */
static char *make_chunk(unsigned number) {
    size_t length = 0, room = 64;
    char *text = must(malloc(room));
    uint32_t seed = number + 1;
    for (int i = 0; i < N_WORDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t word = seed >> 16 & (i % 3 ? 255 : 65535);
        word = word * 2654435761u ^ (i % 5 ? 0 : number);
        do {
            if (length + 2 > room)
                text = must(realloc(text, room *= 2));
            text[length++] = (char)('a' + word % 16);
        } while (word /= 16);
        text[length++] = ' ';
    }
    text[length - 1] = '\0';
    return text;
}

static struct table *count_chunk(unsigned number) {
    struct table *table = must(calloc(1, sizeof *table));
    char *text = make_chunk(number), *rest = text;
    for (char *word; (word = strsep(&rest, " "));)
        add(table, word, 1);
    free(text);
    return table;
}

static void merge(struct table *into, struct table *from) {
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct entry *entry = from->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            add(into, entry->word, entry->count);
            free(entry->word);
            free(entry);
        }
    free(from);
}

static struct table *count_range(unsigned begin, unsigned end) {
    if (end - begin == 1)
        return count_chunk(begin);
    struct table *first, *second;
#pragma omp task shared(first)
    first = count_range(begin, (begin + end) / 2);
#pragma omp task shared(second)
    second = count_range((begin + end) / 2, end);
#pragma omp taskwait
    merge(first, second);
    return first;
}

int main(int argc, char **argv) {
    unsigned n_chunks = argc > 1 ? (unsigned)atoi(argv[1]) : 24;
    struct table *all = NULL;
#pragma omp parallel
#pragma omp single
    all = count_range(0, n_chunks ? n_chunks : 1);
    long n = 0, n_different = 0;
    const struct entry *most = NULL;
    for (int i = 0; i < N_BUCKETS; i++)
        for (const struct entry *entry = all->buckets[i]; entry; entry = entry->next) {
            n += entry->count;
            n_different++;
            if (!most || entry->count > most->count ||
                (entry->count == most->count && strcmp(entry->word, most->word) < 0))
                most = entry;
        }
    printf("%ld words, %ld different, most often %s\n", n, n_different, most->word);
    return 0;
}
