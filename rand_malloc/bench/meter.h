/* meter.h - what the process uses, from the kernel; nothing here allocates. */
#ifndef RAND_MALLOC_BENCH_METER_H
#define RAND_MALLOC_BENCH_METER_H

#include <stdint.h>

uint64_t meter_clock_ns(void); /* CLOCK_MONOTONIC */
uint64_t meter_cpu_ns(void);   /* user and system time of the process so far */
uint64_t meter_faults(void);   /* minor page faults so far */
uint64_t meter_rss_bytes(void);
uint64_t meter_peak_rss_bytes(void); /* VmHWM */

#endif
