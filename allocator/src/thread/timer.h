/* timer.h - a thread of the library, by setting, that gives back what threads hold that rest.
 *
 * Else one that works does so (idle.h), and where all rest, nobody.
 */
#ifndef EXGEN_TIMER_H
#define EXGEN_TIMER_H

#include "base/platform.h"

extern HIDDEN bool timer_wanted; /* atomic */

/* Whether the next slow path of malloc, or end of a thread, is to start it; not free, for the C
 * library frees where it holds locks that the start waits for. */
ALWAYS_INLINE bool timer_is_wanted(void) {
    return __atomic_load_n(&timer_wanted, __ATOMIC_RELAXED);
}

ALWAYS_INLINE void timer_want(bool is_wanted) {
    __atomic_store_n(&timer_wanted, is_wanted, __ATOMIC_RELAXED);
}

/* Whether the setting asks for it, and it does not run. */
bool timer_is_missing(void);

/* Start it, if it is missing: `look` is what it does at each turn, until that says false.
 * Allocates. */
void timer_start(bool (*look)(void));

/* In the child of a fork, which does not have it: it is missing there. */
void timer_forget(void);

#endif
