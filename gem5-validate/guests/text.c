/* Writes a text of SCALE random words, splits it again, turns the words round, searches it, and
 * joins what it found. */
#include <ctype.h>
#include <string.h>

#include "guest.h"

enum {
    LONGEST_WORD = 9
};

static char *write_text(size_t n_words) {
    char *text = need(n_words * (LONGEST_WORD + 1) + 1);
    char *end = text;
    uint64_t state = 5;
    for (size_t i = 0; i < n_words; i++) {
        uint64_t bits = next_random(&state);
        size_t length = 1 + bits % LONGEST_WORD;
        for (size_t at = 0; at < length; at++)
            *end++ = (char)('a' + (bits >> (5 * at + 8)) % 8);
        *end++ = i % 12 == 11 ? '\n' : ' ';
    }
    *end = '\0';
    return text;
}

static void turn_round(char *word) {
    for (size_t low = 0, high = strlen(word); low + 1 < high; low++) {
        char kept = word[low];
        word[low] = word[--high];
        word[high] = kept;
    }
}

static char **split(char *text, size_t n_words) {
    char **words = need(n_words * sizeof *words);
    size_t n = 0;
    for (char *word = strtok(text, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        words[n] = strcpy(need(strlen(word) + 1), word);
        turn_round(words[n++]);
    }
    return words;
}

static size_t n_found(const char *text, const char *word) {
    size_t n = 0;
    for (text = strstr(text, word); text != NULL; text = strstr(text + 1, word))
        n++;
    return n;
}

int main(int n_arguments, char **arguments) {
    size_t n_words = read_scale(n_arguments, arguments);
    char *text = write_text(n_words);
    uint64_t checksum = n_found(text, "ab") * 31 + n_found(text, "abc");
    char **words = split(text, n_words);
    char *joined = need(n_words * (LONGEST_WORD + 1) + 1);
    char *end = joined;
    for (size_t i = 0; i < n_words; i++) {
        words[i][0] = (char)toupper(words[i][0]);
        end += sprintf(end, "%s,", words[i]);
        free(words[i]);
    }
    for (const char *at = joined; at < end; at++)
        checksum = checksum * 31 + (unsigned char)*at;
    return finish("text", checksum);
}
