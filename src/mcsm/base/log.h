/* Messages of the manager and its tools: one line each, to stderr, the journal or a log file. */
#ifndef MCSM_LOG_H
#define MCSM_LOG_H

struct mcsm_log_fields;

enum mcsm_log_level { MCSM_LOG_ERROR, MCSM_LOG_WARN, MCSM_LOG_INFO, MCSM_LOG_DEBUG };

/** Messages above this level are not written. */
void mcsm_log_set_level(enum mcsm_log_level level);
enum mcsm_log_level mcsm_log_level(void);

/** "error", "warn", "info" or "debug"; -EINVAL for another word. */
int mcsm_log_parse_level(const char *word, enum mcsm_log_level *level_p);

/** Appends to a file instead of stderr; reopens an open file. -errno on failure. */
int mcsm_log_open(const char *path);

void mcsm_log(enum mcsm_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Logs a text. In the journal the entry has the fields; `fields` may be NULL. */
void mcsm_log_event(enum mcsm_log_level level, const struct mcsm_log_fields *fields,
                    const char *text);

/** Logs each line of the text that is not empty. `text` may be NULL, and is changed. */
void mcsm_log_lines(enum mcsm_log_level level, char *text);

#define mcsm_error(...) mcsm_log(MCSM_LOG_ERROR, __VA_ARGS__)
#define mcsm_warn(...)  mcsm_log(MCSM_LOG_WARN, __VA_ARGS__)
#define mcsm_info(...)  mcsm_log(MCSM_LOG_INFO, __VA_ARGS__)
#define mcsm_debug(...) mcsm_log(MCSM_LOG_DEBUG, __VA_ARGS__)

#endif
