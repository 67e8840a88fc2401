/* pairs.c - a malloc and a free, again and again, for benchmarks/allocators.py.
 *
 *   pairs BYTES N
 */
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t bytes = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    size_t n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; i < n; i++) {
        void *volatile block = malloc(bytes);
        free(block);
    }
    return n == 0;
}
