#include "log.h"

#include "journal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static const char *const words[] = {"error", "warn", "info", "debug"};
static enum mcsm_log_level limit = MCSM_LOG_INFO;
static FILE *file;

void mcsm_log_set_level(enum mcsm_log_level level)
{
    limit = level;
}

enum mcsm_log_level mcsm_log_level(void)
{
    return limit;
}

int mcsm_log_parse_level(const char *word, enum mcsm_log_level *level_p)
{
    for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (strcmp(words[i], word) == 0) {
            *level_p = i;
            return 0;
        }
    }
    return -EINVAL;
}

int mcsm_log_open(const char *path)
{
    FILE *opened = fopen(path, "ae");

    if (opened == NULL) {
        return -errno;
    }
    if (file != NULL) {
        fclose(file);
    }
    file = opened;
    setvbuf(file, NULL, _IOLBF, 0);
    return 0;
}

void mcsm_log_event(enum mcsm_log_level level, const struct mcsm_log_fields *fields,
                    const char *text)
{
    char when[32];
    struct timeval now;
    struct tm parts;

    if (level > limit) {
        return;
    }
    if (file == NULL && mcsm_journal_send(level, fields, text)) {
        return;
    }
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &parts);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &parts);
    fprintf(file ? file : stderr, "%s.%03ld mcsm %s: %s\n", when, now.tv_usec / 1000, words[level],
            text);
}

void mcsm_log(enum mcsm_log_level level, const char *format, ...)
{
    char text[1024];
    va_list args;

    if (level > limit) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    mcsm_log_event(level, NULL, text);
}

void mcsm_log_lines(enum mcsm_log_level level, char *text)
{
    char *line;

    while ((line = strsep(&text, "\n")) != NULL) {
        if (line[0] != '\0') {
            mcsm_log(level, "%s", line);
        }
    }
}
