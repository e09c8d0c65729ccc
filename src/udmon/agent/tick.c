#include "tick.h"

void tick_begin(struct tick *tick, uint64_t interval_ns, uint64_t time_ns)
{
    tick->interval_ns = interval_ns;
    tick->period = time_ns / interval_ns;
}

/* Whether the period, or the next one, was the last to be sampled. */
static bool tick_was_in(const struct tick *tick, uint64_t period)
{
    return (period == tick->period) || (period + 1 == tick->period);
}

bool tick_due(struct tick *tick, uint64_t time_ns)
{
    uint64_t period = time_ns / tick->interval_ns, late_ns = time_ns % tick->interval_ns;

    if (tick_was_in(tick, period)) {
        return false;
    }
    tick->period = period;
    tick->late_ns += late_ns;
    tick->late_greatest_ns = (late_ns > tick->late_greatest_ns) ? late_ns : tick->late_greatest_ns;
    ++tick->count;
    return true;
}

uint64_t tick_wait_ns(const struct tick *tick, uint64_t time_ns)
{
    uint64_t period = time_ns / tick->interval_ns;

    if (tick_was_in(tick, period)) {
        period = tick->period;
    }
    return ((period + 1) * tick->interval_ns) - time_ns;
}

uint64_t tick_late_greatest(struct tick *tick)
{
    uint64_t late_ns = tick->late_greatest_ns;

    tick->late_greatest_ns = 0;
    return late_ns;
}
