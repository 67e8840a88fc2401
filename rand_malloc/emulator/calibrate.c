/* calibrate.c - see calibrate.h. */
#include "calibrate.h"
#include "message.h"

int calibrate(const struct options *options) {
    (void)options;
    return complain(EXIT_REPLAY, "calibrate", "not built yet");
}
