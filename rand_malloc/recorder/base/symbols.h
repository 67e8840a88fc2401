/* symbols.h - what the program sees of librecorder.so, and where the compiler puts it. */
#ifndef MALLOC_TUNER_RECORDER_SYMBOLS_H
#define MALLOC_TUNER_RECORDER_SYMBOLS_H

#define RECORDER_HIDDEN __attribute__((visibility("hidden")))
#define RECORDER_EXPORT __attribute__((visibility("default")))
#define RECORDER_COLD   __attribute__((cold, noinline))

#endif
