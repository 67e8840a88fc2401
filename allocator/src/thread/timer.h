/* timer.h - a thread of the library, by setting, that gives back what threads hold that rest.
 *
 * Else one that works does so (idle.h), and where all rest, nobody.
 */
#ifndef EXGEN_TIMER_H
#define EXGEN_TIMER_H

#include <stdbool.h>

/* Whether the setting asks for it, and it does not run. */
bool timer_is_missing(void);

/* Start it, if it is missing: `look` is what it does at each turn.  Allocates. */
void timer_start(void (*look)(void));

/* In the child of a fork, which does not have it: it is missing there. */
void timer_forget(void);

#endif
