/* probe.h - the parts of the probe; each observes one allocator and adds one object to the report.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include "json.h"

/* The report on standard output. */
extern struct json report;

/* Behaviour of glibc malloc: thresholds, thread cache, fast bins.  Must run before
 * anything else allocates, and only when malloc is glibc's. */
void probe_glibc(void);

/* gperftools: numeric properties, flags and the measured transfer batch. */
void probe_tcmalloc(void);

/* jemalloc: every option of opt.* that mallctl knows, and the slab of every bin. */
void probe_jemalloc(void);

/* exgen: its own account of its settings. */
void probe_exgen(void);

#endif
