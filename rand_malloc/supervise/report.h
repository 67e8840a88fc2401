/* The report: one JSON object, schema "supervise.result", version 1. */
#ifndef SUPERVISE_REPORT_H
#define SUPERVISE_REPORT_H

#include <stdbool.h>

#include "meter.h"
#include "plan.h"
#include "watch.h"

/* Write the report and close the descriptor; false with errno on failure. */
bool write_report(const struct plan *plan, const struct meter *meter,
                  const struct outcome *outcome);

#endif
