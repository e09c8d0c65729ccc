/* Log lines and the clock of inmd. */
#ifndef INM_BASE_H
#define INM_BASE_H

#include <syslog.h>

/** Prints a line to standard error with a level of syslog(3). */
void inm_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** Returns seconds since 1970. */
double now_seconds(void);

#endif
