/* fork.h - keep the allocator whole in the child of a fork. */
#ifndef EXGEN_FORK_H
#define EXGEN_FORK_H

/* Register the fork handlers, unless that was done; without holding a lock. */
void fork_watch(void);

#endif
