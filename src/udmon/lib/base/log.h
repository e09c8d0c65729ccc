/* Messages of the library, to stderr or wherever udmon_set_log says. */
#ifndef UDMON_LOG_H
#define UDMON_LOG_H

#include "../../include/udmon.h"

#include <stdbool.h>
#include <stdint.h>

void udmon_log(enum udmon_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Limits messages that strangers or a fault can repeat endlessly: one line in LOG_LIMIT_NS. */
struct udmon_log_limit {
    uint64_t next_ns; /* before, nothing is said */
    uint64_t unsaid;
};

/** Whether a line may be written now; *unsaid_p: how many were not since the last one. */
bool udmon_log_allowed(struct udmon_log_limit *limit, uint64_t *unsaid_p);

#define udmon_warn_limited(_limit, _format, ...)                                                   \
    do {                                                                                           \
        uint64_t _unsaid;                                                                          \
        if (udmon_log_allowed(_limit, &_unsaid)) {                                                 \
            udmon_warn(_format "%s", __VA_ARGS__, udmon_log_unsaid(_unsaid));                      \
        }                                                                                          \
    } while (0)

/** Returns " (and N times before, not told)" or "". */
const char *udmon_log_unsaid(uint64_t count);

#define udmon_error(...) udmon_log(UDMON_LOG_ERROR, __VA_ARGS__)
#define udmon_warn(...)  udmon_log(UDMON_LOG_WARN, __VA_ARGS__)
#define udmon_info(...)  udmon_log(UDMON_LOG_INFO, __VA_ARGS__)
#define udmon_debug(...) udmon_log(UDMON_LOG_DEBUG, __VA_ARGS__)

#endif
