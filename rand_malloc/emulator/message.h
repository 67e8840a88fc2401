/* message.h - the one way the supervisor complains: "rand_malloc: what: why". */
#ifndef RAND_MALLOC_MESSAGE_H
#define RAND_MALLOC_MESSAGE_H

#include "json.h"

/* Prints one line on stderr and returns code. */
__attribute__((format(printf, 3, 4))) int complain(int code, const char *what, const char *why,
                                                   ...);

/* The same for a message that names its subject itself. */
int complain_as_is(int code, const char *message);

/* Writes the end of the JSON on standard output: EXIT_OK, or EXIT_REPLAY after a message. */
int finish_output(struct json *json);

#endif
