/*
 * One line to standard error for people. Level by GLEX_LOG: none, error, warn (default), info.
 */
#ifndef GLEX_LOG_H
#define GLEX_LOG_H

enum glex_log_level { GLEX_LOG_NONE, GLEX_LOG_ERROR, GLEX_LOG_WARN, GLEX_LOG_INFO };

/** Sets the highest level that is printed. glex_env() sets the level before it reads other
 *  variables. */
void glex_log_set_level(enum glex_log_level level);

/** Prints `glex: <message>` if the level is on. Keeps errno. */
void glex_log(enum glex_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define glex_error(...) glex_log(GLEX_LOG_ERROR, __VA_ARGS__)
#define glex_warn(...)  glex_log(GLEX_LOG_WARN, __VA_ARGS__)
#define glex_info(...)  glex_log(GLEX_LOG_INFO, __VA_ARGS__)

#endif
