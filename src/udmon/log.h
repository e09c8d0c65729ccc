/* Messages of the library, to stderr or wherever udmon_set_log says. */
#ifndef UDMON_LOG_H
#define UDMON_LOG_H

#include "udmon.h"

void udmon_log(udmon_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define udmon_error(...) udmon_log(UDMON_LOG_ERROR, __VA_ARGS__)
#define udmon_warn(...) udmon_log(UDMON_LOG_WARN, __VA_ARGS__)
#define udmon_info(...) udmon_log(UDMON_LOG_INFO, __VA_ARGS__)
#define udmon_debug(...) udmon_log(UDMON_LOG_DEBUG, __VA_ARGS__)

#endif
