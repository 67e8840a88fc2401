/* exchange.h - blocks that were freed by other threads than their owners, for any thread to use. */
#ifndef EXGEN_EXCHANGE_H
#define EXGEN_EXCHANGE_H

#include "base/platform.h"
#include "memory/spare.h"

enum {
    N_STRIPES = 16,
    N_SEGMENT = 31 /* most blocks that go in or out at once */
};

/* N_SEGMENT places for addresses of blocks; NULL if out of memory.  `spare` is the thread's. */
void **exchange_open(struct spare *spare);

/* Put the first `n` of these blocks, of `class`, in, for the owners that share `stripe` first of
 * all; each is linked to the next if `is_list`.  False if there is no room for them, and the places
 * are still the caller's. */
bool exchange_give(size_t class, size_t stripe, void **blocks, size_t n, bool is_list);

/* The places are used no longer. */
void exchange_close(struct spare *spare, void **blocks);

/* Let others have those that the thread holds. */
void exchange_close_spare(struct spare *spare);

/* Blocks that come out at once, as they went in, in places that exchange_close is to have back. */
struct taken {
    void **blocks;
    size_t n;
    bool is_list;
};

/* Take blocks of `class` out, from one stripe or from any; false if there are none. */
bool exchange_take(size_t class, size_t stripe, struct taken *taken);
bool exchange_take_anywhere(size_t class, size_t stripe, struct taken *taken);

/* A step of the look that comes every purge_delay: take out up to `n` blocks, N_SEGMENT at least,
 * that no thread took since the last look.  0 when the look is over, or none is due. */
size_t exchange_take_idle(uint64_t now_ms, void **blocks, size_t n);

/* Take out up to `n` blocks of any class, N_SEGMENT at least; 0 when there are none. */
size_t exchange_take_any(void **blocks, size_t n);

/* Whether there is a block of any class. */
bool exchange_has_any(void);

extern HIDDEN uint8_t exchange_is_open; /* atomic: a block was put in, ever */

/* For the moment of a fork. */
void exchange_lock(void);
void exchange_unlock(void);

#endif
