/*
 * The instants at which a sensor samples: multiples of its interval since 1970. So the sensors of
 * all hosts with synchronized clocks sample at the same instants. The caller passes the time of
 * day, and the functions read no clock.
 *
 * A period is the time between two multiples. A sensor samples at most once in a period: a timer
 * that fires early, or a clock that is set back by less than two periods, delays the next tick.
 * After a larger step back, the sensor follows the new time at once.
 */
#ifndef UDMON_AGENT_TICK_H
#define UDMON_AGENT_TICK_H

#include <stdbool.h>
#include <stdint.h>

struct tick {
    uint64_t interval_ns;
    uint64_t period;           /* of the last tick; periods are numbered from 1970 */
    uint64_t count;            /* ticks */
    uint64_t late_ns;          /* sum: how long after the beginning of its period each tick came */
    uint64_t late_greatest_ns; /* since tick_late_greatest() */
};

/** Begins with the next period. The counters stay. */
void tick_begin(struct tick *tick, uint64_t interval_ns, uint64_t time_ns);
/** The timer has fired: whether to sample. If so, counts the tick. */
bool tick_due(struct tick *tick, uint64_t time_ns);
/** How long to wait for the next tick; at least 1. Missed periods are left out. */
uint64_t tick_wait_ns(const struct tick *tick, uint64_t time_ns);
/** The greatest lateness since the last call. */
uint64_t tick_late_greatest(struct tick *tick);

#endif
