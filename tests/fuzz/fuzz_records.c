/* fuzz_records.c - libFuzzer target of the reader of classic records and their generator: no
 * text crashes them, and every event keeps the rules of trace.h.
 */
#include "../../rand_malloc/classic/classic.h"
#include "../../rand_malloc/trace/ledger.h"

#include <stdlib.h>

enum {
    MOST_EVENTS = 20000
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(int condition) {
    if (!condition)
        abort();
}

static void generate(const struct classic_records *records) {
    struct trace_event event;
    struct ledger ledger;
    struct classic *classic = classic_open(records, 1);
    require(classic != NULL && ledger_open(&ledger));
    int status = TRACE_OK;
    for (int i = 0; i < MOST_EVENTS && status == TRACE_OK; i++) {
        status = classic_next(classic, &event);
        require(status != TRACE_OK || ledger_apply(&ledger, &event) == NULL);
    }
    require(status != TRACE_END || ledger.live_blocks <= records->n);
    ledger_close(&ledger);
    classic_close(classic);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    struct classic_records records;
    char message[256] = "";
    int status = records_parse((const char *)data, n_bytes, &records, message, sizeof message);
    require(status == TRACE_OK || message[0] != '\0');
    if (status != TRACE_OK)
        return 0;
    generate(&records);
    records_release(&records);
    return 0;
}
