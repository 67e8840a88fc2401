/* fatal.c - stop a program whose heap can no longer be trusted.
 *
 * One line on stderr by write(), then SIGABRT.  Nothing here allocates, so it
 * is safe at any point of the allocator and in signal handlers.
 */
#include <stdlib.h>

#include "base/platform.h"
#include "base/text.h"

void fatal(const char *what, const void *address) {
    char buffer[256];
    struct text t = {buffer, sizeof buffer, 0};
    text_string(&t, "exgen: ");
    text_string(&t, what);
    if (address != NULL) {
        text_string(&t, ": ");
        text_hex(&t, (uintptr_t)address);
    }
    text_string(&t, "\n");
    text_to_stderr(&t);
    abort();
}

void assert_failed(const char *condition, const char *file, int line) {
    char buffer[256];
    struct text t = {buffer, sizeof buffer, 0};
    text_string(&t, "assertion failed: ");
    text_string(&t, condition);
    text_string(&t, ", ");
    text_string(&t, file);
    text_string(&t, ":");
    text_decimal(&t, (uint64_t)line);
    fatal(buffer, NULL);
}
