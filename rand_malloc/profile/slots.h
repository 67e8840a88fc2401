/* slots.h - the lives in progress while a profile is generated, by the slots of their blocks. */
#ifndef RAND_MALLOC_PROFILE_SLOTS_H
#define RAND_MALLOC_PROFILE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#define NO_SLOT UINT32_MAX

enum {
    SLOT_STEP_BITS = 30 /* there are fewer steps than bytes of text */
};

/* What the codes of a life are. */
enum slot_codes {
    CODES_COARSE,
    CODES_EXACT, /* it is a fixed life */
    CODES_RANKED /* the same, each followed by a rank */
};

/* A slot: the life in it.  Half a cache line. */
struct slot {
    uint64_t due;        /* when the next step comes, see wheel.h */
    uint32_t next;       /* slot that waits for the same tick, see wheel.h */
    uint32_t birth_tick; /* allocations up to its own */
    uint32_t next_code;  /* in the codes of the profile */
    uint32_t next_step;  /* in its steps; end_step: none is left */
    uint32_t end_step : SLOT_STEP_BITS;
    uint32_t codes : 2; /* enum slot_codes */
    uint16_t birth_window;
    uint16_t owner; /* thread that allocated or reallocated the block last */
};
_Static_assert(sizeof(struct slot) == 32, "two to a cache line");

#endif
