/* fuzz_profile.c - libFuzzer target of the profile reader and the generator: no text
 * crashes them, and every event generated from an accepted profile keeps the rules of
 * trace.h.
 */
#include "../../rand_malloc/profile/generator.h"
#include "../../rand_malloc/profile/profile.h"
#include "../../rand_malloc/trace/ledger.h"

#include <stdlib.h>

enum {
    MOST_EVENTS = 20000 /* a short text may stand for billions */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(int condition) {
    if (!condition)
        abort();
}

static void generate(const struct profile *profile) {
    struct trace_event event;
    struct ledger ledger;
    for (uint32_t w = 0; w < profile->n_windows; w++)
        if (profile->windows[w].n_allocations > MOST_EVENTS)
            return;
    struct generator *generator = generator_open(profile, 1);
    require(generator != NULL && ledger_open(&ledger));
    ledger.page_bytes = profile->page_bytes;
    int status = TRACE_OK;
    for (int i = 0; i < MOST_EVENTS && status == TRACE_OK; i++) {
        status = generator_next(generator, &event);
        const char *why = status == TRACE_OK ? ledger_apply(&ledger, &event) : NULL;
        /* Huge sizes are legal one by one; their sum may pass what a trace can hold. */
        if (why != NULL && ledger.live_bytes >= UINT64_C(1) << 61)
            break;
        require(why == NULL);
    }
    ledger_close(&ledger);
    generator_close(generator);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    struct profile profile;
    char message[256] = "";
    int status = profile_parse((const char *)data, n_bytes, &profile, message, sizeof message);
    require(status == TRACE_OK || message[0] != '\0');
    if (status != TRACE_OK)
        return 0;
    generate(&profile);
    profile_release(&profile);
    return 0;
}
