#include "alerts.h"
#include "template.h"
#include "../../lib/base/clock.h"
#include "../../lib/base/log.h"
#include "../../lib/net/loop.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- alerts ---------------------------------------------------------------------------------- */

static int alert_compare(const void *left, const void *right)
{
    const struct alert *a = left, *b = right;

    return (a->rule != b->rule) ? ((a->rule > b->rule) - (a->rule < b->rule)) :
                                  strcmp(a->key, b->key);
}

static void alert_free(struct alert *alert)
{
    labels_free(&alert->labels);
    free(alert->key);
    free(alert);
}

static void alerts_remove(struct alerts *alerts, struct alert *alert)
{
    tdelete(alert, &alerts->tree, alert_compare);
    LIST_REMOVE(alert, list);
    --alerts->count;
    alert_free(alert);
}

/* Adds the rule's labels to the labels of a series. */
static bool alert_labels(const struct rule *rule, const struct labels *series, double value,
                         struct labels *labels)
{
    char *text;
    size_t i;
    bool set = true;

    for (i = 0; set && (i < series->count); ++i) {
        set = labels_set(labels, series->list[i].name, series->list[i].value);
    }
    for (i = 0; set && (i < rule->labels.count); ++i) {
        text = template_expand(rule->labels.list[i].value, series, value);
        set = (text != NULL) && labels_set(labels, rule->labels.list[i].name, text);
        free(text);
    }
    /* udmon_alerts has a label alertstate of its own; an empty value removes a label */
    return set && labels_set(labels, "alertstate", "") &&
           labels_set(labels, "alertname", rule->name);
}

/* Finds or makes the alert of a rule for a series. NULL: too many alerts, or no memory. */
static struct alert *alerts_get(struct alerts *alerts, const struct rule *rule,
                                const struct labels *series, double value)
{
    struct alert *alert = calloc(1, sizeof(*alert)), **found;

    if (alert == NULL) {
        return NULL;
    }
    alert->rule = rule;
    if (alert_labels(rule, series, value, &alert->labels)) {
        alert->key = labels_text(&alert->labels);
    }
    if (alert->key == NULL) {
        alert_free(alert);
        return NULL;
    }
    found = tfind(alert, &alerts->tree, alert_compare);
    if (found != NULL) {
        alert_free(alert);
        return *found;
    }
    if ((alerts->count == ALERTS_MAX) || (tsearch(alert, &alerts->tree, alert_compare) == NULL)) {
        alert_free(alert);
        return NULL;
    }
    alert->state = ALERT_RESOLVED; /* the caller makes it pending */
    LIST_INSERT_HEAD(&alerts->list, alert, list);
    ++alerts->count;
    return alert;
}

/* ---- states ---------------------------------------------------------------------------------- */

static void alert_log(const struct alert *alert, const char *what)
{
    static struct udmon_log_limit limit;

    udmon_warn_limited(&limit, "alert %s {%s}: %s", alert->rule->name, alert->key, what);
}

/* The expression holds. */
static void alert_holds(struct alerts *alerts, struct alert *alert, double value, uint64_t now_ns,
                        int64_t now_ms)
{
    alert->value = value;
    alert->held_ns = now_ns;
    alert->evaluation = alerts->evaluation;
    if (alert->state == ALERT_RESOLVED) {
        alert->state = ALERT_PENDING;
        alert->active_ns = now_ns;
        alert->active_ms = now_ms;
    }
    if ((alert->state == ALERT_PENDING) &&
        ((now_ns - alert->active_ns) >= (alert->rule->for_ms * 1000000))) {
        alert->state = ALERT_FIRING;
        alert->fired_ms = now_ms;
        ++alert->version;
        alert_log(alert, "firing");
    }
}

/* The expression does not hold. Frees an alert that is over. */
static void alert_ends(struct alerts *alerts, struct alert *alert, uint64_t now_ns, int64_t now_ms)
{
    switch (alert->state) {
    case ALERT_PENDING:
        if (alert->version == 0) {
            alerts_remove(alerts, alert);
        } else { /* it fired some time ago: channels may still have to tell its end */
            alert->state = ALERT_RESOLVED;
        }
        break;
    case ALERT_FIRING:
        if ((now_ns - alert->held_ns) >= (alert->rule->keep_ms * 1000000)) {
            alert->state = ALERT_RESOLVED;
            alert->resolved_ns = now_ns;
            alert->resolved_ms = now_ms;
            ++alert->version;
            alert_log(alert, "resolved");
        }
        break;
    case ALERT_RESOLVED:
        if ((now_ns - alert->resolved_ns) >= ALERTS_RESOLVED_NS) {
            alerts_remove(alerts, alert);
        }
        break;
    }
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static bool alerts_is_due(const struct alerts *alerts, size_t rule, uint64_t now_ns)
{
    return alerts->due_ns[rule] <= now_ns;
}

bool alerts_wants(const struct alerts *alerts, const char *name, size_t length, int counter)
{
    static const char suffix[] = "_total";
    const char *metric;
    size_t i;

    for (i = 0; i < alerts->rules.count; ++i) {
        metric = alerts->rules.list[i].expr.metric;
        if (!strncmp(metric, name, length) && !strcmp(metric + length, counter ? suffix : "")) {
            return true;
        }
    }
    return false;
}

uint64_t alerts_wait_ns(const struct alerts *alerts, uint64_t now_ns)
{
    uint64_t wait_ns = UINT64_MAX;
    size_t i;

    for (i = 0; i < alerts->rules.count; ++i) {
        if (alerts_is_due(alerts, i, now_ns)) {
            return 0;
        }
        if ((alerts->due_ns[i] - now_ns) < wait_ns) {
            wait_ns = alerts->due_ns[i] - now_ns;
        }
    }
    return wait_ns;
}

/* A series: the rules that are due and hold for it. */
static void alerts_series(struct alerts *alerts, const char *name, size_t length,
                          const struct labels *labels, double value, uint64_t now_ns,
                          int64_t now_ms)
{
    static struct udmon_log_limit limit;
    const struct rule *rule;
    struct alert *alert;
    size_t i;

    for (i = 0; i < alerts->rules.count; ++i) {
        rule = &alerts->rules.list[i];
        if (!alerts_is_due(alerts, i, now_ns) || strncmp(rule->expr.metric, name, length) ||
            (rule->expr.metric[length] != '\0') || !expr_holds(&rule->expr, labels, value)) {
            continue;
        }
        alert = alerts_get(alerts, rule, labels, value);
        if (alert == NULL) {
            ++alerts->discarded;
            udmon_warn_limited(&limit, "more than %d alerts: alert %s is left out for some series",
                               ALERTS_MAX, rule->name);
        } else if (alert->evaluation != alerts->evaluation) { /* else two series, one alert */
            alert_holds(alerts, alert, value, now_ns, now_ms);
        }
    }
}

/* Whether some rule needs the series that begins the line. */
static bool alerts_line_wanted(const struct alerts *alerts, const char *line, size_t length)
{
    return alerts_wants(alerts, line, length, 0);
}

static void alerts_line(struct alerts *alerts, const char *line, uint64_t now_ns, int64_t now_ms)
{
    size_t length = strcspn(line, "{ \n");
    struct labels labels = {0};
    const char *at;

    if ((line[0] == '#') || !alerts_line_wanted(alerts, line, length)) {
        return;
    }
    at = labels_parse(&labels, line + length);
    if (at != NULL) {
        alerts_series(alerts, line, length, &labels, strtod(at, NULL), now_ns, now_ms);
    }
    labels_free(&labels);
}

void alerts_evaluate(struct alerts *alerts, const char *text, uint64_t now_ns, int64_t now_ms)
{
    struct alert *alert, *next;
    const char *line;
    size_t i;

    ++alerts->evaluation;
    for (line = text; *line != '\0'; line += strcspn(line, "\n"), line += (*line == '\n')) {
        alerts_line(alerts, line, now_ns, now_ms);
    }
    for (alert = LIST_FIRST(&alerts->list); alert != NULL; alert = next) {
        next = LIST_NEXT(alert, list);
        if ((alert->evaluation != alerts->evaluation) &&
            alerts_is_due(alerts, (size_t)(alert->rule - alerts->rules.list), now_ns)) {
            alert_ends(alerts, alert, now_ns, now_ms);
        }
    }
    for (i = 0; i < alerts->rules.count; ++i) {
        if (alerts_is_due(alerts, i, now_ns)) {
            alerts->due_ns[i] = now_ns + (alerts->rules.list[i].interval_ms * 1000000);
        }
    }
    pthread_cond_broadcast(&alerts->changed);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* The rule of `rules` that continues the alerts of a rule, or NULL. */
static const struct rule *rules_find(const struct rules *rules, const struct rule *rule)
{
    size_t i;

    for (i = 0; i < rules->count; ++i) {
        if (rule_same(&rules->list[i], rule)) {
            return &rules->list[i];
        }
    }
    return NULL;
}

static void alert_keep(void *alert)
{
    (void)alert; /* the list has it */
}

/* Takes over new rules; all are due. With the lock held, except in alerts_init(). */
static int alerts_take_rules(struct alerts *alerts, struct rules *rules)
{
    uint64_t *due_ns = calloc(rules->count + 1, sizeof(*due_ns));
    struct alert *alert, *next, **found;

    if (due_ns == NULL) {
        rules_free(rules);
        return -ENOMEM;
    }
    tdestroy(alerts->tree, alert_keep); /* the order of the tree is that of the rules */
    alerts->tree = NULL;
    for (alert = LIST_FIRST(&alerts->list); alert != NULL; alert = next) {
        next = LIST_NEXT(alert, list);
        alert->rule = rules_find(rules, alert->rule);
        found = (alert->rule != NULL) ? tsearch(alert, &alerts->tree, alert_compare) : NULL;
        if ((found == NULL) || (*found != alert)) {
            LIST_REMOVE(alert, list);
            --alerts->count;
            alert_free(alert);
        }
    }
    free(alerts->due_ns);
    rules_free(&alerts->rules);
    alerts->due_ns = due_ns;
    alerts->rules = *rules;
    *rules = (struct rules){0};
    return 0;
}

void alerts_reload(struct alerts *alerts)
{
    struct rules rules;

    if (rules_load(alerts->options.rules_file, &rules) < 0) {
        udmon_error("%s is wrong: alerts go on with the rules as they were",
                    alerts->options.rules_file);
        return;
    }
    pthread_mutex_lock(&alerts->lock);
    if (alerts->has_next) {
        rules_free(&alerts->next_rules);
    }
    alerts->next_rules = rules;
    alerts->has_next = true;
    pthread_cond_broadcast(&alerts->changed);
    pthread_mutex_unlock(&alerts->lock);
    udmon_info("%s read again", alerts->options.rules_file);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static char *alerts_samples(struct alerts *alerts)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        return NULL;
    }
    alerts->options.write_samples(alerts->options.arg, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void alerts_wait(struct alerts *alerts, uint64_t wait_ns)
{
    uint64_t until_ns;
    struct timespec until;

    if (wait_ns == UINT64_MAX) { /* no rules */
        pthread_cond_wait(&alerts->changed, &alerts->lock);
        return;
    }
    until_ns = udmon_now_ns() + wait_ns;
    until.tv_sec = (time_t)(until_ns / 1000000000);
    until.tv_nsec = (long)(until_ns % 1000000000);
    pthread_cond_timedwait(&alerts->changed, &alerts->lock, &until);
}

static void *alerts_run(void *arg)
{
    struct alerts *alerts = arg;
    uint64_t wait_ns;
    char *text;

    pthread_mutex_lock(&alerts->lock);
    while (!alerts->stopping) {
        if (alerts->has_next) {
            alerts->has_next = false;
            alerts_take_rules(alerts, &alerts->next_rules);
        }
        wait_ns = alerts_wait_ns(alerts, udmon_now_ns());
        if (wait_ns > 0) {
            alerts_wait(alerts, wait_ns);
            continue;
        }
        pthread_mutex_unlock(&alerts->lock);
        text = alerts_samples(alerts);
        pthread_mutex_lock(&alerts->lock);
        if (text != NULL) {
            alerts_evaluate(alerts, text, udmon_now_ns(), (int64_t)(udmon_time_ns() / 1000000));
        } else {
            alerts_wait(alerts, 1000000000);
        }
        free(text);
    }
    pthread_mutex_unlock(&alerts->lock);
    return NULL;
}

int alerts_init(struct alerts *alerts, const struct alerts_options *options)
{
    pthread_condattr_t attributes;
    struct rules rules;
    int ret;

    memset(alerts, 0, sizeof(*alerts));
    alerts->options = *options;
    LIST_INIT(&alerts->list);
    ret = rules_load(options->rules_file, &rules);
    ret = (ret == 0) ? alerts_take_rules(alerts, &rules) : ret;
    if (ret < 0) {
        return ret;
    }
    pthread_mutex_init(&alerts->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&alerts->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return 0;
}

void alerts_destroy(struct alerts *alerts)
{
    struct alert *alert;

    while ((alert = LIST_FIRST(&alerts->list)) != NULL) {
        alerts_remove(alerts, alert);
    }
    if (alerts->has_next) {
        rules_free(&alerts->next_rules);
    }
    rules_free(&alerts->rules);
    free(alerts->due_ns);
    pthread_cond_destroy(&alerts->changed);
    pthread_mutex_destroy(&alerts->lock);
}

int alerts_open(struct alerts *alerts, const struct alerts_options *options)
{
    int ret = alerts_init(alerts, options);

    if (ret < 0) {
        return ret;
    }
    ret = udmon_thread_start(&alerts->thread, alerts_run, alerts);
    if (ret < 0) {
        udmon_error("no thread for alerts: %s", strerror(-ret));
        alerts_destroy(alerts);
    }
    return ret;
}

void alerts_close(struct alerts *alerts)
{
    pthread_mutex_lock(&alerts->lock);
    alerts->stopping = 1;
    pthread_cond_broadcast(&alerts->changed);
    pthread_mutex_unlock(&alerts->lock);
    pthread_join(alerts->thread, NULL);
    alerts_destroy(alerts);
}
