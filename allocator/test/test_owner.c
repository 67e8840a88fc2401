/* test_owner.c - a thread that reads the owner of a superblock may read its head.
 *
 * The litmus test of message passing (MP): one thread writes a head and then its byte of the owner
 * map, another one reads the byte and then the head.
 *
 *     head = n; owner_set(n)      ||      owner_of_any() == n; head == n
 *
 * Weakly ordered processors may show the byte before the head unless the store releases and the
 * load acquires (C11, 5.1.2.4).  Where the test runs under the thread sanitizer, the order is
 * proved by that: the head is no atomic, so without it the sanitizer reports a race.
 */
#include <pthread.h>

#include "memory/layout.h"
#include "system/os.h"
#include "test.h"

enum {
    N_ROUNDS = 200,
    N_PIECES = 200
};

static char *pieces; /* of the owner map; their first words are heads */

static uint8_t number_of(size_t piece) {
    return (uint8_t)(OWNER_FIRST + piece % (OWNER_LAST - OWNER_FIRST + 1));
}

static uint64_t *head_of(size_t piece) {
    return (uint64_t *)(void *)(pieces + piece * layout.bytes);
}

static void *publish(void *unused) {
    (void)unused;
    for (size_t piece = 0; piece < N_PIECES; piece++) {
        *head_of(piece) = piece + 1;
        owner_set(head_of(piece), number_of(piece));
    }
    return NULL;
}

static void *read_heads(void *unused) {
    (void)unused;
    for (size_t piece = 0; piece < N_PIECES; piece++) {
        while (owner_of_any((uintptr_t)head_of(piece)) == OWNER_NONE)
            ;
        EXPECT(*head_of(piece) == piece + 1);
        EXPECT(owner_of_any((uintptr_t)head_of(piece)) == number_of(piece));
    }
    return NULL;
}

int main(void) {
    pthread_t writer;
    pthread_t reader;
    os_init();
    EXPECT(layout_init(65536));
    pieces = os_map_aligned(N_PIECES * layout.bytes, layout.bytes);
    EXPECT(pieces != NULL && owner_map_widen(pieces, N_PIECES * layout.bytes));
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        EXPECT(pthread_create(&reader, NULL, read_heads, NULL) == 0);
        EXPECT(pthread_create(&writer, NULL, publish, NULL) == 0);
        pthread_join(writer, NULL);
        pthread_join(reader, NULL);
        for (size_t piece = 0; piece < N_PIECES; piece++) {
            *head_of(piece) = 0;
            owner_set(head_of(piece), OWNER_NONE);
        }
    }
    return test_passed();
}
