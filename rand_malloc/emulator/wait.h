/* wait.h - waiting for other threads, from text that is not counted.
 *
 * Futexes and polling by raw system calls: libc's condition variables would be counted
 * as the allocator's.
 */
#ifndef RAND_MALLOC_WAIT_H
#define RAND_MALLOC_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

/* Returns when the word no longer holds the value; wake_one ends the sleep. */
void wait_while(_Atomic uint32_t *word, uint32_t value);

void wake_one(_Atomic uint32_t *word);

/* Returns when the kernel no longer knows the thread whose number comes to stand in
 * *tid: after that pthread_join does not wait. */
void wait_for_exit(_Atomic uint32_t *tid);

void spin_for_slot(_Atomic uint32_t *next, uint32_t sequence);

/* Returns when all earlier operations of the slot are done (free-running mode). */
static inline void wait_for_slot(_Atomic uint32_t *next, uint32_t sequence) {
    if (atomic_load_explicit(next, memory_order_acquire) != sequence)
        spin_for_slot(next, sequence);
}

#endif
