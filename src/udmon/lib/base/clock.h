/* Clocks. */
#ifndef UDMON_CLOCK_H
#define UDMON_CLOCK_H

#include <stdint.h>

/** Monotonic time in ns. */
uint64_t udmon_now_ns(void);

/** The time of day, in ns since 1970. */
uint64_t udmon_time_ns(void);

#endif
