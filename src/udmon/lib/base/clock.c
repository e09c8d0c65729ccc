#include "clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return ((uint64_t)now.tv_sec * 1000000000) + now.tv_nsec;
}

uint64_t udmon_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t udmon_time_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}
