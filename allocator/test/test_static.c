/* test_static.c - a program without any shared library has exgen as its malloc.
 *
 * Linked with -static: the C library's own calls (stdio, getline, threads) must come to
 * exgen too, and nothing may drag the C library's malloc into the program.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "exgen.h"
#include "test.h"

static void the_c_library_allocates_here(void) {
    struct exgen_stats before;
    struct exgen_stats after;
    exgen_get_stats(&before, sizeof before);
    char *copy = strdup("text");
    FILE *file = fopen("/proc/self/maps", "r");
    EXPECT(copy != NULL && file != NULL);
    exgen_get_stats(&after, sizeof after);
    EXPECT(after.n_blocks >= before.n_blocks + 2);
    char *line = NULL;
    size_t capacity = 0;
    EXPECT(getline(&line, &capacity, file) > 0);
    EXPECT(exgen_malloc_usable_size(line) >= capacity);
    free(line);
    fclose(file);
    free(copy);
}

static void *allocate(void *block) {
    free(block);
    for (size_t i = 0; i < 3000; i++) {
        void *a = malloc(i);
        void *b = calloc(i, 3);
        EXPECT(a != NULL && b != NULL);
        a = realloc(a, i * 2 + 1);
        EXPECT(a != NULL);
        free(a);
        free(b);
    }
    return malloc(100);
}

static void threads_work(void) {
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, allocate, malloc(50)) == 0);
    for (size_t i = 0; i < 4; i++) {
        void *block;
        EXPECT(pthread_join(threads[i], &block) == 0);
        free(block);
    }
}

int main(int count, char **arguments) {
    the_c_library_allocates_here();
    if (count < 2 || strcmp(arguments[1], "one-thread") != 0)
        threads_work();
    else
        free(allocate(malloc(50)));
    EXPECT(exgen_validate_heap());
    return test_passed();
}
