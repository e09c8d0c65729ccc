#include "events.h"

#include "base/journal.h"

#include <stdarg.h>
#include <stdio.h>

void mcsm_report(const struct mcsm_sm_events *events, const char *name, enum mcsm_log_level level,
                 uint64_t guid, uint8_t port, const char *format, ...)
{
    char text[512];
    struct mcsm_event event = {name, text, level, guid, port};
    const struct mcsm_log_fields fields = {name, guid, port};
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    mcsm_log_event(level, &fields, text);
    if (events->event != NULL) {
        events->event(events->arg, &event);
    }
}
