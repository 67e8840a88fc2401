/* calibrate.h - what a page fault and a memory system call cost here, in instructions. */
#ifndef RAND_MALLOC_CALIBRATE_H
#define RAND_MALLOC_CALIBRATE_H

#include "options.h"

/* Measures and prints the JSON object; EXIT_OK or a code with a message. */
int calibrate(const struct options *options);

#endif
