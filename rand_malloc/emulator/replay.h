/* replay.h - performs the operations of the plan; see replay.c. */
#ifndef RAND_MALLOC_REPLAY_H
#define RAND_MALLOC_REPLAY_H

#include "harness.h"

/* Performs operations [begin, end) of the plan as the given lane. */
void replay_ops(struct replay *replay, uint32_t lane, uint64_t begin, uint64_t end,
                struct tally *tally);

/* Brings the clock to the start and to the end of the process, and reads the heap there. */
void replay_start(struct replay *replay);
void replay_end(struct replay *replay);

/* Brings the clock to the exit of the thread whose last turn this is. */
void replay_exit(struct replay *replay, const struct turn *turn);

/* Verifies the blocks that live on after the last operation; they are in no tally. */
void replay_verify_rest(struct replay *replay);

#endif
