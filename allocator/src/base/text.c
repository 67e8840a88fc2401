/* text.c - build short texts without printf or malloc; see text.h. */
#include "base/text.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

void text_bytes(struct text *t, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (t->length + 1 < t->capacity) {
            t->buffer[t->length] = s[i];
            t->buffer[t->length + 1] = '\0';
        }
        t->length++;
    }
}

void text_string(struct text *t, const char *s) {
    size_t n = 0;
    while (s[n] != '\0')
        n++;
    text_bytes(t, s, n);
}

static void text_number(struct text *t, uint64_t n, unsigned base) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n != 0);
    text_bytes(t, digits + at, sizeof digits - at);
}

void text_decimal(struct text *t, uint64_t n) {
    text_number(t, n, 10);
}

void text_hex(struct text *t, uint64_t n) {
    text_string(t, "0x");
    text_number(t, n, 16);
}

void text_to_stderr(const struct text *t) {
    int saved = errno;
    size_t n = t->length < t->capacity ? t->length : t->capacity - 1;
    syscall(SYS_write, STDERR_FILENO, t->buffer, n); /* unlike write no cancellation point */
    errno = saved;
}
