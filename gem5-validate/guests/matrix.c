/* Multiplies two SCALE x SCALE matrices of doubles, block by block. */
#include <string.h>

#include "guest.h"

enum {
    BLOCK = 16
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void multiply_block(const double *a, const double *b, double *c, size_t n, size_t row,
                           size_t inner, size_t column) {
    for (size_t i = row; i < smaller(row + BLOCK, n); i++)
        for (size_t k = inner; k < smaller(inner + BLOCK, n); k++)
            for (size_t j = column; j < smaller(column + BLOCK, n); j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}

int main(int n_arguments, char **arguments) {
    size_t n = read_scale(n_arguments, arguments);
    double *a = need(n * n * sizeof *a);
    double *b = need(n * n * sizeof *b);
    double *c = calloc(n * n, sizeof *c);
    uint64_t state = 3;
    if (c == NULL)
        return 1;
    for (size_t i = 0; i < n * n; i++) {
        a[i] = (double)(next_random(&state) % 16); /* small whole numbers: sums are exact */
        b[i] = (double)(next_random(&state) % 16);
    }
    for (size_t row = 0; row < n; row += BLOCK)
        for (size_t inner = 0; inner < n; inner += BLOCK)
            for (size_t column = 0; column < n; column += BLOCK)
                multiply_block(a, b, c, n, row, inner, column);
    uint64_t checksum = 0;
    for (size_t i = 0; i < n * n; i++)
        checksum = checksum * 31 + (uint64_t)c[i];
    return finish("matrix", checksum);
}
