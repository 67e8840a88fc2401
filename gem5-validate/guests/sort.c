/* Sorts SCALE numbers twice: by merging, with a buffer, and in place, by a heap. */
#include <string.h>

#include "guest.h"

static void merge_sort(uint64_t *values, uint64_t *buffer, size_t n) {
    if (n < 2)
        return;
    size_t half = n / 2;
    merge_sort(values, buffer, half);
    merge_sort(values + half, buffer, n - half);
    memcpy(buffer, values, half * sizeof *values);
    size_t left = 0, right = half;
    for (size_t out = 0; left < half; out++) {
        int take_right = right < n && values[right] < buffer[left];
        values[out] = take_right ? values[right++] : buffer[left++];
    }
}

static void sift_down(uint64_t *heap, size_t at, size_t n) {
    uint64_t value = heap[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= value)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
}

static void heap_sort(uint64_t *values, size_t n) {
    for (size_t i = n / 2; i-- > 0;)
        sift_down(values, i, n);
    for (size_t last = n; last-- > 1;) {
        uint64_t greatest = values[0];
        values[0] = values[last];
        values[last] = greatest;
        sift_down(values, 0, last);
    }
}

int main(int n_arguments, char **arguments) {
    size_t n = read_scale(n_arguments, arguments);
    uint64_t *values = need(n * sizeof *values);
    uint64_t *copy = need(n * sizeof *copy);
    uint64_t *buffer = need((n / 2 + 1) * sizeof *buffer);
    uint64_t state = 4;
    for (size_t i = 0; i < n; i++)
        values[i] = copy[i] = next_random(&state);
    merge_sort(values, buffer, n);
    heap_sort(copy, n);
    uint64_t checksum = 0;
    for (size_t i = 0; i < n; i++) {
        if (values[i] != copy[i] || (i > 0 && values[i - 1] > values[i]))
            return 1;
        checksum = checksum * 31 + values[i];
    }
    return finish("sort", checksum);
}
