/* biased_lock.h - a mutex that its usual thread takes by plain stores.
 *
 * An atomic operation waits until everything the thread wrote before is in its cache, also what it
 * wrote into memory that is in none.  A thread that took the lock ALONE_MOST times in a row, with
 * no other in between, becomes the one it is biased to: that thread then says by a store of its own
 * that it holds the lock, and looks whether the bias is still there.  Another one takes the real
 * lock, ends the bias, has the kernel make every thread pass a fence (membarrier), and waits while
 * the former owner is inside.  Where the system refuses membarrier later on, as a sandbox may, it
 * waits instead for far longer than a processor keeps a store to itself.
 *
 * Each thread that ever had the bias has a place of its own, which no other thread writes, or a
 * former owner that was held up between its look at the bias and its store would undo that of the
 * next.  When all places are taken, the lock is like any other.
 *
 * Source: Kawachiya, Koseki, Onodera, "Lock Reservation", OOPSLA 2002; the fence on one side as in
 * heap/visit.h.
 */
#ifndef EXGEN_BIASED_LOCK_H
#define EXGEN_BIASED_LOCK_H

#include "system/lock.h"

enum {
    N_BIAS_PLACES = 4
};

struct bias {
    const void *thread; /* what lock_thread says in it; NULL: nobody's yet */
    bool is_inside;     /* atomic */
};

struct biased_lock {
    struct bias *bias; /* atomic: of the thread that may do without the lock; NULL: of none */
    /* Under the lock, real or not: */
    struct bias *inside; /* the place of the thread that holds it by its bias, or NULL */
    const void *last;    /* thread that took the real lock last */
    uint32_t n_alone;    /* how often in a row */
    struct lock lock;
    struct bias places[N_BIAS_PLACES];
};

void biased_lock_take(struct biased_lock *l);
void biased_lock_release(struct biased_lock *l);

/* The lock itself, which ends the bias: for a fork, in whose child there is no thread that waits
 * for the one with the bias and has the lock. */
void biased_lock_take_really(struct biased_lock *l);

/* False if it is held, without waiting until it is not. */
bool biased_lock_try(struct biased_lock *l);

#endif
