/*
 * Messages about alerts. Each channel has a thread, and no channel waits for another channel:
 *
 *   webhook  POST of the body of Alertmanager's /api/v2/alerts. Firing alerts are sent again each
 *            NOTIFY_AGAIN_NS, as Alertmanager expects.
 *   command  a shell command that gets a text on standard input, at changes only. Its environment
 *            has UDMON_SUBJECT, a line that says how many alerts fire and are resolved.
 *
 * A message that cannot be delivered is tried again, later each time. It then tells the present
 * state.
 */
#ifndef UDMON_ALERT_NOTIFY_H
#define UDMON_ALERT_NOTIFY_H

#include "alerts.h"

#include <pthread.h>
#include <stdbool.h>

#define NOTIFY_AGAIN_NS UINT64_C(60000000000)

struct notify_options {
    const char *webhook, *command; /* or NULL */
};

struct notify {
    struct alerts *alerts;
    struct notify_options options;
    struct notify_channel {
        struct notify *notify;
        pthread_t thread;
        bool started;
    } channels[ALERTS_CHANNELS];
    int stopping; /* with the alerts' lock held */
};

/** On failure, a line in the log has the reason. */
int notify_open(struct notify *notify, struct alerts *alerts, const struct notify_options *options);
/** Before alerts_close(). Messages that wait are not delivered. */
void notify_close(struct notify *notify);

#endif
