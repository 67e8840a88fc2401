/* guard.c - guard pages; see guard.h. */
#include "memory/guard.h"

#include "base/options.h"
#include "base/text.h"
#include "memory/layout.h"
#include "system/os.h"

enum {
    MAPPINGS_PER_GUARD = 2
};

/* All state of this module. */
static struct {
    size_t most;
    size_t used;   /* atomic */
    bool is_known; /* atomic: that they are used up was said */
} guards;

void guard_init(void) {
    guards.most = os_most_mappings() / 2 / MAPPINGS_PER_GUARD;
}

size_t guard_bytes(void) {
    return os_page_bytes() <= UNIT_BYTES / 4 ? guard_bytes_of_large() : 0;
}

size_t guard_bytes_of_large(void) {
    return options.secure ? os_page_bytes() : 0;
}

bool guard_is_left(void) {
    return __atomic_load_n(&guards.used, __ATOMIC_RELAXED) < guards.most;
}

COLD static void say_used_up(size_t n) {
    char buffer[160];
    struct text t = {buffer, sizeof buffer, 0};
    if (__atomic_exchange_n(&guards.is_known, true, __ATOMIC_RELAXED))
        return;
    text_string(&t, "exgen: ");
    text_decimal(&t, n);
    text_string(&t, " guard pages are in use, and vm.max_map_count allows no more: later blocks"
                    " have none\n");
    text_to_stderr(&t);
}

bool guard_last_page(char *end) {
    size_t bytes = os_page_bytes();
    size_t used = __atomic_add_fetch(&guards.used, 1, __ATOMIC_RELAXED);
    bool done = used <= guards.most && os_protect(end - bytes, bytes, true);
    if (!done)
        guard_unmapped();
    if (!done || used == guards.most)
        say_used_up(used);
    return done;
}

bool unguard_last_page(char *end) {
    size_t bytes = os_page_bytes();
    if (!os_protect(end - bytes, bytes, false))
        return false;
    guard_unmapped();
    return true;
}

void guard_unmapped(void) {
    __atomic_fetch_sub(&guards.used, 1, __ATOMIC_RELAXED);
}
