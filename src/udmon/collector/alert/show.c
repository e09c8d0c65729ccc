#include "show.h"
#include "template.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHOW_BATCH = 1000 /* alerts of one message */ };

static const char *const state_names[] = {
    [ALERT_PENDING] = "pending", [ALERT_FIRING] = "firing", [ALERT_RESOLVED] = "resolved"};

static struct json_object *show_labels(const struct labels *labels)
{
    struct json_object *object = json_object_new_object();
    size_t i;

    for (i = 0; i < labels->count; ++i) {
        json_object_object_add(object, labels->list[i].name,
                               json_object_new_string(labels->list[i].value));
    }
    return object;
}

static struct json_object *show_annotations(const struct alert *alert)
{
    const struct labels *texts = &alert->rule->annotations;
    struct json_object *object = json_object_new_object();
    char *text;
    size_t i;

    for (i = 0; i < texts->count; ++i) {
        text = template_expand(texts->list[i].value, &alert->labels, alert->value);
        json_object_object_add(object, texts->list[i].name,
                               json_object_new_string((text != NULL) ? text : ""));
        free(text);
    }
    return object;
}

/* ---- JSON for the page ----------------------------------------------------------------------- */

static struct json_object *show_alert(const struct alert *alert)
{
    struct json_object *object = json_object_new_object();
    char value[32];

    template_number(alert->value, value);
    json_object_object_add(object, "name", json_object_new_string(alert->rule->name));
    json_object_object_add(object, "state", json_object_new_string(state_names[alert->state]));
    json_object_object_add(object, "labels", show_labels(&alert->labels));
    json_object_object_add(object, "annotations", show_annotations(alert));
    json_object_object_add(object, "value", json_object_new_string(value));
    json_object_object_add(object, "active_ms", json_object_new_int64(alert->active_ms));
    if (alert->state != ALERT_PENDING) {
        json_object_object_add(object, "fired_ms", json_object_new_int64(alert->fired_ms));
    }
    if (alert->state == ALERT_RESOLVED) {
        json_object_object_add(object, "resolved_ms", json_object_new_int64(alert->resolved_ms));
    }
    return object;
}

/* How many alerts are in each state. */
struct counts {
    int of[ALERT_STATES];
};

/* Counts all alerts, and the alerts of each rule. */
static struct counts show_count(const struct alerts *alerts, struct counts *of_rules)
{
    const struct alert *alert;
    struct counts all = {0};

    LIST_FOREACH(alert, &alerts->list, list) {
        ++all.of[alert->state];
        if (of_rules != NULL) {
            ++of_rules[alert->rule - alerts->rules.list].of[alert->state];
        }
    }
    return all;
}

static struct json_object *show_rule(const struct rule *rule, const struct counts *counts)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "group", json_object_new_string(rule->group));
    json_object_object_add(object, "name", json_object_new_string(rule->name));
    json_object_object_add(object, "expr", json_object_new_string(rule->text));
    json_object_object_add(object, "for_ms", json_object_new_int64((int64_t)rule->for_ms));
    json_object_object_add(object, "line", json_object_new_int(rule->line));
    json_object_object_add(object, "pending", json_object_new_int(counts->of[ALERT_PENDING]));
    json_object_object_add(object, "firing", json_object_new_int(counts->of[ALERT_FIRING]));
    return object;
}

static struct json_object *show_rules(const struct alerts *alerts, const struct counts *of_rules)
{
    struct json_object *rules = json_object_new_array();
    size_t i;

    for (i = 0; i < alerts->rules.count; ++i) {
        json_object_array_add(rules, show_rule(&alerts->rules.list[i], &of_rules[i]));
    }
    return rules;
}

static struct json_object *show_list(const struct alerts *alerts, size_t limit)
{
    static const enum alert_state order[] = {ALERT_FIRING, ALERT_PENDING, ALERT_RESOLVED};
    struct json_object *list = json_object_new_array();
    const struct alert *alert;
    size_t i;

    for (i = 0; i < (sizeof(order) / sizeof(order[0])); ++i) {
        LIST_FOREACH(alert, &alerts->list, list) {
            if (json_object_array_length(list) >= limit) {
                return list;
            }
            if (alert->state == order[i]) {
                json_object_array_add(list, show_alert(alert));
            }
        }
    }
    return list;
}

struct json_object *show_json(struct alerts *alerts, size_t limit, int64_t now_ms)
{
    struct json_object *answer = json_object_new_object();
    struct counts *of_rules, all;
    int i;

    json_object_object_add(answer, "now", json_object_new_int64(now_ms));
    pthread_mutex_lock(&alerts->lock);
    of_rules = calloc(alerts->rules.count + 1, sizeof(*of_rules));
    all = show_count(alerts, of_rules);
    if (of_rules != NULL) {
        json_object_object_add(answer, "rules", show_rules(alerts, of_rules));
        json_object_object_add(answer, "alerts", show_list(alerts, limit));
    }
    pthread_mutex_unlock(&alerts->lock);
    for (i = 0; i < ALERT_STATES; ++i) {
        json_object_object_add(answer, state_names[i], json_object_new_int(all.of[i]));
    }
    if (of_rules == NULL) {
        json_object_put(answer);
        return NULL;
    }
    free(of_rules);
    return answer;
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* The family of a counter. In OpenMetrics its name lacks the suffix _total. */
static void show_counter(FILE *out, bool openmetrics, const char *name, const char *help)
{
    const char *suffix = openmetrics ? "" : "_total";

    fprintf(out, "# HELP %s%s %s\n# TYPE %s%s counter\n", name, suffix, help, name, suffix);
}

static void show_channels(FILE *out, const char *name, const uint64_t counts[ALERTS_CHANNELS])
{
    fprintf(out, "%s_total{channel=\"webhook\"} %llu\n", name,
            (unsigned long long)counts[ALERTS_WEBHOOK]);
    fprintf(out, "%s_total{channel=\"command\"} %llu\n", name,
            (unsigned long long)counts[ALERTS_COMMAND]);
}

void show_metrics(struct alerts *alerts, bool openmetrics, FILE *out)
{
    static const char sent[] = "udmon_alert_messages_sent";
    static const char failed[] = "udmon_alert_messages_failed";
    static const char discarded[] = "udmon_alerts_discarded";
    const struct alert *alert;

    pthread_mutex_lock(&alerts->lock);
    fprintf(out, "# HELP udmon_alerts Alerts that are pending or firing.\n"
                 "# TYPE udmon_alerts gauge\n");
    LIST_FOREACH(alert, &alerts->list, list) {
        if (alert->state != ALERT_RESOLVED) {
            fprintf(out, "udmon_alerts{alertstate=\"%s\",%s} 1\n", state_names[alert->state],
                    alert->key);
        }
    }
    show_counter(out, openmetrics, discarded, "Alerts that were left out: there were too many.");
    fprintf(out, "%s_total %llu\n", discarded, (unsigned long long)alerts->discarded);
    show_counter(out, openmetrics, sent, "Messages about alerts that were delivered.");
    show_channels(out, sent, alerts->sent);
    show_counter(out, openmetrics, failed, "Messages about alerts that could not be delivered.");
    show_channels(out, failed, alerts->failed);
    pthread_mutex_unlock(&alerts->lock);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Whether the channel must tell the alert now. The end of an alert that it has not told is no news.
 * */
static bool show_is_news(const struct alert *alert, int channel, uint64_t again_ns, uint64_t now_ns)
{
    const struct alert_told *told = &alert->told[channel];

    switch (alert->state) {
    case ALERT_PENDING:
        return false;
    case ALERT_FIRING:
        return (told->version != alert->version) ||
               ((again_ns > 0) && ((now_ns - told->at_ns) >= again_ns));
    case ALERT_RESOLVED:
        return (told->version != alert->version) && (told->version != 0);
    }
    return false;
}

static void show_time(int64_t ms, char text[40])
{
    time_t seconds = ms / 1000;
    struct tm parts;
    size_t length;

    gmtime_r(&seconds, &parts);
    length = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, 40 - length, ".%03dZ", (int)(ms % 1000));
}

/* Alertmanager resolves an alert that is not repeated before its end. */
static struct json_object *show_postable(const struct alert *alert, uint64_t again_ns,
                                         int64_t now_ms)
{
    int64_t again_ms = (int64_t)(again_ns / 1000000);
    int64_t interval_ms = (int64_t)alert->rule->interval_ms;
    int64_t end_ms = (alert->state == ALERT_RESOLVED) ?
                         alert->resolved_ms :
                         (now_ms + (4 * ((again_ms > interval_ms) ? again_ms : interval_ms)));
    /* A resolved alert that holds again, and is not firing yet, has begun after its end */
    int64_t start_ms = (alert->active_ms < end_ms) ? alert->active_ms : end_ms;
    struct json_object *object = json_object_new_object();
    char text[40];

    json_object_object_add(object, "labels", show_labels(&alert->labels));
    json_object_object_add(object, "annotations", show_annotations(alert));
    show_time(start_ms, text);
    json_object_object_add(object, "startsAt", json_object_new_string(text));
    show_time(end_ms, text);
    json_object_object_add(object, "endsAt", json_object_new_string(text));
    return object;
}

/* The lines of an alert for people. Label alertname stands in front. */
static void show_lines(const struct alert *alert, FILE *out)
{
    const struct labels *labels = &alert->labels;
    const struct labels *annotations = &alert->rule->annotations;
    char since[40], value[32], *text;
    size_t i;

    show_time(alert->active_ms, since);
    template_number(alert->value, value);
    fprintf(out, "%s: %s", (alert->state == ALERT_FIRING) ? "FIRING" : "RESOLVED",
            alert->rule->name);
    for (i = 0; i < labels->count; ++i) {
        if (strcmp(labels->list[i].name, "alertname") != 0) {
            fprintf(out, " %s=%s", labels->list[i].name, labels->list[i].value);
        }
    }
    fprintf(out, "\n    since %s, value %s\n", since, value);
    for (i = 0; i < annotations->count; ++i) {
        text = template_expand(annotations->list[i].value, labels, alert->value);
        fprintf(out, "    %s: %s\n", annotations->list[i].name, (text != NULL) ? text : "");
        free(text);
    }
}

static void show_begin(struct alert *alert, int channel, struct show_message *news)
{
    alert->told[channel].batch = news->batch;
    alert->told[channel].batch_version = alert->version;
    news->firing += (alert->state == ALERT_FIRING);
    news->resolved += (alert->state == ALERT_RESOLVED);
}

bool show_news(struct alerts *alerts, int channel, bool text, uint64_t again_ns, uint64_t now_ns,
               int64_t now_ms, struct show_message *news)
{
    struct json_object *array = text ? NULL : json_object_new_array();
    struct alert *alert;
    size_t length;
    FILE *out;

    *news = (struct show_message){.batch = ++alerts->batch};
    out = open_memstream(&news->body, &length);
    LIST_FOREACH(alert, &alerts->list, list) {
        if ((out == NULL) || ((news->firing + news->resolved) == SHOW_BATCH)) {
            break;
        }
        if (!show_is_news(alert, channel, again_ns, now_ns)) {
            continue;
        }
        show_begin(alert, channel, news);
        if (text) {
            show_lines(alert, out);
        } else {
            json_object_array_add(array, show_postable(alert, again_ns, now_ms));
        }
    }
    if ((out != NULL) && !text) {
        fputs(json_object_to_json_string_ext(array, JSON_C_TO_STRING_PLAIN), out);
    }
    json_object_put(array);
    if ((out == NULL) || (fclose(out) != 0) || ((news->firing + news->resolved) == 0)) {
        free(news->body);
        news->body = NULL;
        return false;
    }
    return true;
}

void show_told(struct alerts *alerts, int channel, uint64_t batch, uint64_t now_ns)
{
    struct alert_told *told;
    struct alert *alert;

    LIST_FOREACH(alert, &alerts->list, list) {
        told = &alert->told[channel];
        if (told->batch == batch) {
            told->version = told->batch_version;
            told->at_ns = now_ns;
        }
    }
}
