/* fuzz_profile.c - libFuzzer target of the profile reader and the generator: no text
 * crashes them, and every event generated from an accepted profile keeps the rules of
 * trace.h.
 */
#include "../../rand_malloc/profile/generator.h"
#include "../../rand_malloc/profile/profile.h"
#include "../../rand_malloc/trace/ledger.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_EVENTS = 20000 /* a short text may stand for billions */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(int condition) {
    if (!condition)
        abort();
}

/* The generator keeps no ledger, but what it says is what the ledger finds. */
static void compare(const struct generator_totals *totals, const struct ledger *ledger) {
    require(totals->n_events == ledger->n_events && totals->n_slots == ledger->n_slots);
    require(totals->time_ns == ledger->time_ns);
    require(totals->live_bytes == ledger->live_bytes);
    require(totals->live_blocks == ledger->live_blocks);
    require(totals->peak_live_bytes == ledger->peak_live_bytes);
    require(totals->peak_live_blocks == ledger->peak_live_blocks);
}

static void generate(const struct profile *profile) {
    struct trace_event event;
    struct generator_totals totals;
    struct ledger ledger;
    size_t n;
    for (uint32_t w = 0; w < profile->n_windows; w++)
        if (profile->windows[w].n_allocations > MOST_EVENTS)
            return;
    struct generator *generator = generator_open(profile, 1);
    require(generator != NULL && ledger_open(&ledger));
    ledger.page_bytes = profile->page_bytes;
    int status = TRACE_OK;
    for (int i = 0; i < MOST_EVENTS && status == TRACE_OK; i++) {
        status = generator_read(generator, &event, 1, &n);
        if (status != TRACE_OK)
            break;
        uint32_t owner = event.owner;
        require(n == 1 && ledger_apply(&ledger, &event) == NULL && event.owner == owner);
    }
    if (status != TRACE_ERROR_FORMAT) { /* of sizes whose sum a trace cannot hold */
        generator_get_totals(generator, &totals);
        compare(&totals, &ledger);
        require(status != TRACE_END || totals.n_events == profile->n_events);
    }
    ledger_close(&ledger);
    generator_close(generator);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    struct profile profile;
    char message[256] = "";
    char *text = malloc(n_bytes + 1);
    require(text != NULL);
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    int status = profile_parse(text, n_bytes, &profile, message, sizeof message);
    free(text);
    require(status == TRACE_OK || message[0] != '\0');
    if (status != TRACE_OK)
        return 0;
    generate(&profile);
    profile_release(&profile);
    return 0;
}
