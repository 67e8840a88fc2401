/* give.h - every form of free and delete: recorded, then the real free. */
#ifndef MALLOC_TUNER_RECORDER_GIVE_H
#define MALLOC_TUNER_RECORDER_GIVE_H

#include "base/real.h"
#include "thread/record.h"
#include "touch/touch.h"

static inline void give(enum record_short code, void *block) {
    if (real_is_foreign(block))
        return;
    if (touch_may_know(block))
        touch_end(block);
    record(code, block, 0, clock_stamp());
    real.free(block);
}

#endif
