/* lanes.h - waiting for another lane's operation on a slot; see lanes.c. */
#ifndef RAND_MALLOC_LANES_H
#define RAND_MALLOC_LANES_H

#include <stdatomic.h>
#include <stdint.h>

void lanes_spin_for_slot(_Atomic uint32_t *next, uint32_t sequence);

/* Returns when all earlier operations of the slot are done (free-running mode). */
static inline void lanes_wait_for_slot(_Atomic uint32_t *next, uint32_t sequence) {
    if (atomic_load_explicit(next, memory_order_acquire) != sequence)
        lanes_spin_for_slot(next, sequence);
}

#endif
