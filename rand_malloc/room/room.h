/* room.h - memory that is free for this process. */
#ifndef RAND_MALLOC_ROOM_H
#define RAND_MALLOC_ROOM_H

#include <stdint.h>

/* So many bytes, or as many as may be taken for a moment: a quarter of what is free by
 * /proc/meminfo and the process's control group, whichever has less; 0 if that is not known. */
uint64_t room_for(uint64_t bytes);

#endif
