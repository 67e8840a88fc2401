/* room.h - memory that is free for this process. */
#ifndef RAND_MALLOC_ROOM_H
#define RAND_MALLOC_ROOM_H

#include <stdint.h>

/* So many bytes, or as many as may be taken for a moment: a quarter of what is free by
 * /proc/meminfo and the process's control groups, whichever has least; 0 if that is not known. */
uint64_t room_for(uint64_t bytes);

/* What is free in a control group of version 2, such as "/a/b", and in those that hold it, up to
 * the folder where they are mounted: the least of limit - used; UINT64_MAX if none has a limit. */
uint64_t room_in_group(const char *mount, const char *group);

#endif
