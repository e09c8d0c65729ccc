/* Alerts as JSON for the page and programs, as metrics, and as messages for the channels
 * (notify.h). */
#ifndef UDMON_ALERT_SHOW_H
#define UDMON_ALERT_SHOW_H

#include "alerts.h"

#include <json-c/json.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/**
 * /api/alerts[?limit=N]: {"now": ms, "rules": [{"group", "name", "expr", "for_ms", "line",
 * "pending", "firing"}], "alerts": [{"name", "state", "labels": {...}, "annotations": {...},
 * "value", "active_ms", "fired_ms", "resolved_ms"}], "pending": count, "firing", "resolved"}.
 * Firing alerts come first, then pending, then resolved ones. The list has at most N alerts (100);
 * the counts are of all. The caller's, or NULL: no memory.
 */
struct json_object *show_json(struct alerts *alerts, size_t limit, int64_t now_ms);

/** The families udmon_alerts and udmon_alert_..., in one of the text formats. */
void show_metrics(struct alerts *alerts, bool openmetrics, FILE *out);

/* A message of a channel. */
struct show_message {
    uint64_t batch;
    unsigned firing, resolved;
    char *body;
};

/**
 * The changes that a channel has not told yet; with `again_ns`, also alerts that fire on and were
 * told so long ago. As the body of Alertmanager's POST /api/v2/alerts, or as text for people.
 * False: there is nothing to tell. With the lock held.
 */
bool show_news(struct alerts *alerts, int channel, bool text, uint64_t again_ns, uint64_t now_ns,
               int64_t now_ms, struct show_message *news);
/** The message has been delivered. With the lock held. */
void show_told(struct alerts *alerts, int channel, uint64_t batch, uint64_t now_ns);

#endif
