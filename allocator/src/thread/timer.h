/* timer.h - a thread of the library, by setting, that gives back what threads hold that rest.
 *
 * Else one that works does so (idle.h), and where all rest, nobody.
 */
#ifndef EXGEN_TIMER_H
#define EXGEN_TIMER_H

/* Start it, if it is wanted and does not run: `look` is what it does at each turn.  Allocates.  A
 * process with one thread of its own has none. */
void timer_start(void (*look)(void));

/* In the child of a fork, which does not have it: the next thread that allocates starts it. */
void timer_forget(void);

#endif
