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

/*
 * Finds or makes the alert of a rule for a series. NULL: too many alerts, or no memory. Other
 * threads do not see a new alert before alerts_publish().
 */
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
    alert->state = ALERT_RESOLVED; /* alert_holds() makes it pending */
    LIST_INSERT_HEAD(&alerts->fresh, alert, list);
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
static void alert_holds(struct alert *alert, uint64_t now_ns, int64_t now_ms)
{
    alert->value = alert->next_value;
    alert->held_ns = now_ns;
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

/* Whether a channel has told the beginning of a resolved alert, and not its end. */
static bool alert_end_waits(const struct alert *alert)
{
    int i;

    for (i = 0; i < ALERTS_CHANNELS; ++i) {
        if ((alert->told[i].version != 0) && (alert->told[i].version != alert->version)) {
            return true;
        }
    }
    return false;
}

/*
 * Whether a resolved alert can be freed. Its end waits for a receiver that is away. The number of
 * such ends is bounded, so new alerts find room.
 */
static bool alert_is_over(const struct alerts *alerts, const struct alert *alert, uint64_t now_ns)
{
    return ((now_ns - alert->resolved_ns) >= ALERTS_RESOLVED_NS) &&
           (!alert_end_waits(alert) || (alerts->count > ALERTS_ENDS_MAX));
}

static void alert_forget(struct alerts *alerts, struct alert *alert)
{
    static struct udmon_log_limit limit;

    if (alert_end_waits(alert)) {
        ++alerts->discarded;
        udmon_warn_limited(&limit, "alert %s {%s}: its end could not be told for %d minutes",
                           alert->rule->name, alert->key, (int)(ALERTS_RESOLVED_NS / 60000000000));
    }
    alerts_remove(alerts, alert);
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
        if (alert_is_over(alerts, alert, now_ns)) {
            alert_forget(alerts, alert);
        }
        break;
    }
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static bool alerts_is_due(const struct alerts *alerts, size_t rule, uint64_t now_ns)
{
    return alerts->due_ns[rule] <= now_ns;
}

struct wanted {
    const char *name, *suffix;
    size_t length; /* of the name */
};

static int wanted_compare(const void *key, const void *element)
{
    const struct wanted *wanted = key;
    const char *metric = *(const char *const *)element;
    int order = strncmp(wanted->name, metric, wanted->length);

    return (order != 0) ? order : strcmp(wanted->suffix, metric + wanted->length);
}

bool alerts_wants(const struct alerts *alerts, const char *name, size_t length, int counter)
{
    const struct wanted wanted = {name, counter ? "_total" : "", length};

    return (alerts->rules.count > 0) && (bsearch(&wanted, alerts->metrics, alerts->rules.count,
                                                 sizeof(*alerts->metrics), wanted_compare) != NULL);
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
                          const struct labels *labels, double value, uint64_t now_ns)
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
            alert->evaluation = alerts->evaluation;
            alert->next_value = value;
        }
    }
}

/* Whether some rule needs the series that begins the line. */
static bool alerts_line_wanted(const struct alerts *alerts, const char *line, size_t length)
{
    return alerts_wants(alerts, line, length, 0);
}

static void alerts_line(struct alerts *alerts, const char *line, uint64_t now_ns)
{
    size_t length = strcspn(line, "{ \n");
    struct labels labels = {0};
    const char *at;

    if ((line[0] == '#') || !alerts_line_wanted(alerts, line, length)) {
        return;
    }
    at = labels_parse(&labels, line + length);
    if (at != NULL) {
        alerts_series(alerts, line, length, &labels, strtod(at, NULL), now_ns);
    }
    labels_free(&labels);
}

/* Other threads see the new states. With the lock held, which /metrics and the page wait for. */
static void alerts_publish(struct alerts *alerts, uint64_t now_ns, int64_t now_ms)
{
    struct alert *alert, *next;

    while ((alert = LIST_FIRST(&alerts->fresh)) != NULL) {
        LIST_REMOVE(alert, list);
        LIST_INSERT_HEAD(&alerts->list, alert, list);
    }
    for (alert = LIST_FIRST(&alerts->list); alert != NULL; alert = next) {
        next = LIST_NEXT(alert, list);
        if (alert->evaluation == alerts->evaluation) {
            alert_holds(alert, now_ns, now_ms);
        } else if (alerts_is_due(alerts, (size_t)(alert->rule - alerts->rules.list), now_ns)) {
            alert_ends(alerts, alert, now_ns, now_ms);
        }
    }
    pthread_cond_broadcast(&alerts->changed);
}

void alerts_evaluate(struct alerts *alerts, const char *text, uint64_t now_ns, int64_t now_ms)
{
    const char *line;
    size_t i;

    ++alerts->evaluation;
    for (line = text; *line != '\0'; line += strcspn(line, "\n"), line += (*line == '\n')) {
        alerts_line(alerts, line, now_ns);
    }
    pthread_mutex_lock(&alerts->lock);
    alerts_publish(alerts, now_ns, now_ms);
    pthread_mutex_unlock(&alerts->lock);
    for (i = 0; i < alerts->rules.count; ++i) {
        if (alerts_is_due(alerts, i, now_ns)) {
            alerts->due_ns[i] = now_ns + (alerts->rules.list[i].interval_ms * 1000000);
        }
    }
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

static int metric_compare(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The metrics of the rules, sorted. The caller's, or NULL. */
static const char **rules_metrics(const struct rules *rules)
{
    const char **metrics = calloc(rules->count + 1, sizeof(*metrics));
    size_t i;

    for (i = 0; (metrics != NULL) && (i < rules->count); ++i) {
        metrics[i] = rules->list[i].expr.metric;
    }
    if (metrics != NULL) {
        qsort(metrics, rules->count, sizeof(*metrics), metric_compare);
    }
    return metrics;
}

/* For each rule: the new rule that takes over its alerts, or NULL. The caller's, or NULL: no memory. */
static const struct rule **rules_next(const struct rules *rules, const struct rules *next)
{
    const struct rule **list = calloc(rules->count + 1, sizeof(*list));
    size_t i;

    for (i = 0; (list != NULL) && (i < rules->count); ++i) {
        list[i] = rules_find(next, &rules->list[i]);
    }
    return list;
}

/* Alerts of other rules go. With the lock held. */
static void alerts_continue(struct alerts *alerts, const struct rule *const *next_rules)
{
    struct alert *alert, *next, **found;

    tdestroy(alerts->tree, alert_keep); /* the order of the tree is that of the rules */
    alerts->tree = NULL;
    for (alert = LIST_FIRST(&alerts->list); alert != NULL; alert = next) {
        next = LIST_NEXT(alert, list);
        alert->rule = next_rules[alert->rule - alerts->rules.list];
        found = (alert->rule != NULL) ? tsearch(alert, &alerts->tree, alert_compare) : NULL;
        if ((found == NULL) || (*found != alert)) {
            LIST_REMOVE(alert, list);
            --alerts->count;
            alert_free(alert);
        }
    }
}

/* Takes over new rules; all are due. */
static int alerts_take_rules(struct alerts *alerts, struct rules *rules)
{
    uint64_t *due_ns = calloc(rules->count + 1, sizeof(*due_ns));
    const struct rule **next = rules_next(&alerts->rules, rules);
    const char **metrics = rules_metrics(rules);
    struct rules before = alerts->rules;

    if ((due_ns == NULL) || (next == NULL) || (metrics == NULL)) {
        free(due_ns);
        free(next);
        free(metrics);
        rules_free(rules);
        return -ENOMEM;
    }
    pthread_mutex_lock(&alerts->lock);
    alerts_continue(alerts, next);
    alerts->rules = *rules;
    pthread_mutex_unlock(&alerts->lock);
    free(alerts->due_ns);
    free(alerts->metrics);
    free(next);
    rules_free(&before);
    alerts->due_ns = due_ns;
    alerts->metrics = metrics;
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

/* Evaluates the rules that are due; without the lock. */
static void alerts_work(struct alerts *alerts)
{
    const struct timespec pause = {.tv_sec = 1};
    char *text = alerts_samples(alerts);

    if (text != NULL) {
        alerts_evaluate(alerts, text, udmon_now_ns(), (int64_t)(udmon_time_ns() / 1000000));
        free(text);
    } else {
        nanosleep(&pause, NULL); /* until there is memory */
    }
}

static void *alerts_run(void *arg)
{
    struct alerts *alerts = arg;
    struct rules rules;
    uint64_t wait_ns;

    pthread_mutex_lock(&alerts->lock);
    while (!alerts->stopping) {
        wait_ns = alerts_wait_ns(alerts, udmon_now_ns());
        if (alerts->has_next) {
            alerts->has_next = false;
            rules = alerts->next_rules;
            pthread_mutex_unlock(&alerts->lock);
            alerts_take_rules(alerts, &rules);
            pthread_mutex_lock(&alerts->lock);
        } else if (wait_ns > 0) {
            alerts_wait(alerts, wait_ns);
        } else {
            pthread_mutex_unlock(&alerts->lock);
            alerts_work(alerts);
            pthread_mutex_lock(&alerts->lock);
        }
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
    LIST_INIT(&alerts->fresh);
    ret = rules_load(options->rules_file, &rules);
    if (ret < 0) {
        return ret;
    }
    pthread_mutex_init(&alerts->lock, NULL);
    ret = alerts_take_rules(alerts, &rules);
    if (ret < 0) {
        pthread_mutex_destroy(&alerts->lock);
        return ret;
    }
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
    free(alerts->metrics);
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
