/* message.c - prints messages; see message.h. */
#include "message.h"
#include "options.h"

#include <stdarg.h>
#include <stdio.h>

int complain(int code, const char *what, const char *why, ...) {
    va_list list;
    va_start(list, why);
    fprintf(stderr, "rand_malloc: %s: ", what);
    vfprintf(stderr, why, list);
    fputc('\n', stderr);
    va_end(list);
    return code;
}

int complain_as_is(int code, const char *message) {
    fprintf(stderr, "rand_malloc: %s\n", message);
    return code;
}

int finish_output(struct json *json) {
    return json_finish(json) ? EXIT_OK : complain(EXIT_REPLAY, "standard output", "%m");
}
