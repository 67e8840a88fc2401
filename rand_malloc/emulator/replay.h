/* replay.h - performs the operations of the plan; see replay.c. */
#ifndef RAND_MALLOC_REPLAY_H
#define RAND_MALLOC_REPLAY_H

#include "harness.h"

/* Performs the operations of a turn as its lane, takes its samples, and brings the clock to the
 * thread's exit if it has one. */
void replay_turn(struct replay *replay, const struct turn *turn, struct tally *tally);

/* Brings the clock to the start and to the end of the process, and reads the heap there. */
void replay_start(struct replay *replay);
void replay_end(struct replay *replay);

/* Verifies the blocks that live on after the last operation; they are in no tally. */
void replay_verify_rest(struct replay *replay);

#endif
