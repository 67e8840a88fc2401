/* room.h - memory that is free for this process. */
#ifndef RAND_MALLOC_ROOM_H
#define RAND_MALLOC_ROOM_H

#include <stdint.h>

/* Bytes, by /proc/meminfo and the process's control group, whichever has less; 0 if not known. */
uint64_t room_bytes(void);

#endif
