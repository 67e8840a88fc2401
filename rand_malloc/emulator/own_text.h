/* own_text.h - the executable's own text, which instruments separate from the allocator's. */
#ifndef RAND_MALLOC_OWN_TEXT_H
#define RAND_MALLOC_OWN_TEXT_H

/* Text of waiting and hand-over: how much of it runs inside the region depends on the
 * scheduler, so it is not counted. */
#define WAITING __attribute__((noinline, section("rand_malloc_wait")))
extern const char __start_rand_malloc_wait[];
extern const char __stop_rand_malloc_wait[];

/* The whole is [__executable_start, etext); set by the linker. */
extern const char __executable_start[], etext[];

#endif
