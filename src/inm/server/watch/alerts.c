/* Alerts; see alerts.h. */
#include "alerts.h"
#include "alarms.h"
#include "inm/server/core/place.h"

#include <curl/curl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_SECONDS 15.0 /* after a target that could not be reached */

/* An alert that was sent and whose end has not been sent. */
struct sent {
    uint32_t rule;
    uint64_t alarm;
    double when; /* of the last sending */
    char name[32], severity[16], place[160], text[256];
    double raised;
    bool active; /* found in the present round */
};

struct alerts {
    struct sent *sent;
    uint32_t num_sent, room;
    double not_before[INM_MAX_ALERTS]; /* by rule: after a failure */
    struct inm_silence silences[MAX_SILENCES];
    uint32_t num_silences, next_silence;
};

/* ---- silences -------------------------------------------------------------------------------- */

static void store_silences(struct inmd *d)
{
    const struct alerts *a = d->alerts;
    struct json_object *list = json_object_new_array(), *o;
    uint32_t i;

    for (i = 0; i < a->num_silences; i++) {
        o = json_object_new_object();
        json_object_object_add(o, "place", json_object_new_string(a->silences[i].place));
        json_object_object_add(o, "until", json_object_new_double(a->silences[i].until));
        json_object_object_add(o, "user", json_object_new_string(a->silences[i].user));
        json_object_object_add(o, "comment", json_object_new_string(a->silences[i].comment));
        json_object_array_add(list, o);
    }
    history_setting(d->history, "silences", json_object_to_json_string(list));
    json_object_put(list);
}

static const char *member(struct json_object *o, const char *name)
{
    struct json_object *value;

    return json_object_object_get_ex(o, name, &value) ? json_object_get_string(value) : "";
}

static void add_silence(struct alerts *a, const char *place, double until, const char *user,
                        const char *comment)
{
    struct inm_silence *s = &a->silences[a->num_silences++];

    s->id = a->next_silence++;
    s->until = until;
    snprintf(s->place, sizeof(s->place), "%s", place);
    snprintf(s->user, sizeof(s->user), "%s", user);
    snprintf(s->comment, sizeof(s->comment), "%s", comment);
}

static void restore_silences(struct inmd *d)
{
    char *text = malloc(65536);
    struct json_object *list, *o, *until;
    size_t i;

    if (text != NULL && history_get_setting(d->history, "silences", text, 65536)) {
        list = json_tokener_parse(text);
        for (i = 0; json_object_is_type(list, json_type_array) &&
                    i < json_object_array_length(list) && i < MAX_SILENCES;
             i++) {
            o = json_object_array_get_idx(list, i);
            if (json_object_object_get_ex(o, "until", &until)) {
                add_silence(d->alerts, member(o, "place"), json_object_get_double(until),
                            member(o, "user"), member(o, "comment"));
            }
        }
        json_object_put(list);
    }
    free(text);
}

static void remove_silence(struct alerts *a, uint32_t i)
{
    memmove(&a->silences[i], &a->silences[i + 1], (--a->num_silences - i) * sizeof(a->silences[0]));
}

uint32_t alerts_silence(struct inmd *d, const char *place, double until, const char *user,
                        const char *comment)
{
    uint32_t id = 0;

    pthread_mutex_lock(&d->lock);
    if (d->alerts->num_silences < MAX_SILENCES) {
        id = d->alerts->next_silence;
        add_silence(d->alerts, place, until, user, comment);
        store_silences(d);
        inmd_touch(d);
    }
    pthread_mutex_unlock(&d->lock);
    return id;
}

bool alerts_end_silence(struct inmd *d, uint32_t id)
{
    bool found = false;
    uint32_t i;

    pthread_mutex_lock(&d->lock);
    for (i = 0; i < d->alerts->num_silences && !found; i++) {
        if (d->alerts->silences[i].id == id) {
            remove_silence(d->alerts, i);
            store_silences(d);
            found = true;
        }
    }
    inmd_touch(d);
    pthread_mutex_unlock(&d->lock);
    return found;
}

uint32_t alerts_silences(const struct inmd *d, const struct inm_silence **silences)
{
    *silences = d->alerts->silences;
    return d->alerts->num_silences;
}

bool alerts_silenced(const struct inmd *d, const char *place)
{
    double now = now_seconds();
    uint32_t i;

    for (i = 0; i < d->alerts->num_silences; i++) {
        if (d->alerts->silences[i].until > now &&
            place_matches(place, d->alerts->silences[i].place)) {
            return true;
        }
    }
    return false;
}

/* ---- which alerts to send -------------------------------------------------------------------- */

/* Alerts that one message sends. */
struct message {
    struct sent *alerts;
    uint32_t num;
};

static struct sent *find_sent(struct alerts *a, uint32_t rule, uint64_t alarm)
{
    uint32_t i;

    for (i = 0; i < a->num_sent; i++) {
        if (a->sent[i].rule == rule && a->sent[i].alarm == alarm) {
            return &a->sent[i];
        }
    }
    return NULL;
}

static bool append(struct message *m, const struct sent *alert)
{
    struct sent *more = realloc(m->alerts, (m->num + 1) * sizeof(*more));

    if (more == NULL) {
        return false;
    }
    m->alerts = more;
    m->alerts[m->num++] = *alert;
    return true;
}

/* With the lock held: the alarms that a rule sends now. */
static void collect(struct inmd *d, uint32_t rule, double now, struct message *firing)
{
    const struct inm_alert_config *c = &d->config.alerts[rule];
    uint32_t i;

    for (i = 0; i < d->num_alarms; i++) {
        const struct inm_alarm *a = &d->alarms[i];
        struct sent new = {
            .rule = rule, .alarm = a->id, .when = now, .raised = a->raised, .active = true};
        struct sent *old = find_sent(d->alerts, rule, a->id);

        if (old != NULL) {
            old->active = true;
        }
        alarm_text(d, a, new.place, sizeof(new.place), new.text, sizeof(new.text));
        if (a->severity < c->severity || now - a->raised < c->after_s ||
            (c->cause[0] != '\0' && strcmp(alarm_cause(a->cause), c->cause) != 0) ||
            !place_matches(new.place, c->place) || alerts_silenced(d, new.place)) {
            continue;
        }
        if (old != NULL &&
            (c->repeat_s == 0 || now - old->when < c->repeat_s || a->acknowledged[0] != '\0')) {
            continue;
        }
        snprintf(new.name, sizeof(new.name), "%s", alarm_cause(a->cause));
        snprintf(new.severity, sizeof(new.severity), "%s", severity_name(a->severity));
        append(firing, &new);
    }
}

/* With the lock held: the alerts of a rule whose alarms are over. */
static void collect_ended(struct alerts *a, uint32_t rule, struct message *resolved)
{
    uint32_t i;

    for (i = 0; i < a->num_sent; i++) {
        if (a->sent[i].rule == rule && !a->sent[i].active) {
            append(resolved, &a->sent[i]);
        }
    }
}

/* ---- targets --------------------------------------------------------------------------------- */

static void put(struct json_object *o, const char *name, const char *value)
{
    json_object_object_add(o, name, json_object_new_string(value));
}

static void put_time(struct json_object *o, const char *name, double seconds)
{
    time_t when = (time_t)seconds;
    char text[32];
    struct tm tm;

    gmtime_r(&when, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    put(o, name, seconds > 0 ? text : "0001-01-01T00:00:00Z");
}

static struct json_object *alert_json(const struct inmd *d, const struct sent *s, bool firing)
{
    struct json_object *o = json_object_new_object(), *labels = json_object_new_object();
    struct json_object *annotations = json_object_new_object();
    char fingerprint[32];

    put(labels, "alertname", s->name);
    put(labels, "severity", s->severity);
    put(labels, "place", s->place);
    put(labels, "server", d->config.name);
    put(annotations, "summary", s->text);
    snprintf(fingerprint, sizeof(fingerprint), "%016llx", (unsigned long long)s->alarm);
    put(o, "status", firing ? "firing" : "resolved");
    json_object_object_add(o, "labels", labels);
    json_object_object_add(o, "annotations", annotations);
    put_time(o, "startsAt", s->raised);
    put_time(o, "endsAt", firing ? 0 : now_seconds());
    put(o, "generatorURL", "");
    put(o, "fingerprint", fingerprint);
    return o;
}

/* The body that Alertmanager sends to its webhooks, version 4. */
static struct json_object *webhook_json(const struct inmd *d, const struct inm_alert_config *c,
                                        const struct message *m, bool firing)
{
    struct json_object *o = json_object_new_object(), *list = json_object_new_array();
    struct json_object *labels = json_object_new_object();
    uint32_t i;

    for (i = 0; i < m->num; i++) {
        json_object_array_add(list, alert_json(d, &m->alerts[i], firing));
    }
    put(o, "version", "4");
    put(o, "groupKey", c->name);
    json_object_object_add(o, "truncatedAlerts", json_object_new_int(0));
    put(o, "status", firing ? "firing" : "resolved");
    put(o, "receiver", c->name);
    json_object_object_add(o, "groupLabels", json_object_new_object());
    put(labels, "server", d->config.name);
    json_object_object_add(o, "commonLabels", labels);
    json_object_object_add(o, "commonAnnotations", json_object_new_object());
    put(o, "externalURL", "");
    json_object_object_add(o, "alerts", list);
    return o;
}

static size_t ignore(char *data, size_t size, size_t num, void *arg)
{
    (void)data;
    (void)arg;
    return size * num;
}

static bool send_webhook(const struct inmd *d, const struct inm_alert_config *c,
                         const struct message *m, bool firing)
{
    struct json_object *body = webhook_json(d, c, m, firing);
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    CURL *curl = curl_easy_init();
    CURLcode ret = CURLE_FAILED_INIT;
    long status = 0;

    if (curl != NULL && headers != NULL) {
        curl_easy_setopt(curl, CURLOPT_URL, c->url);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS,
                         json_object_to_json_string_ext(body, JSON_C_TO_STRING_PLAIN));
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        ret = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    }
    if (ret != CURLE_OK || status >= 300) {
        inm_log(LOG_ERR, "alert %s: %s: %s, status %ld; the server tries again", c->name, c->url,
                curl_easy_strerror(ret), status);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    json_object_put(body);
    return ret == CURLE_OK && status < 300;
}

static bool run_command(const struct inmd *d, const struct inm_alert_config *c,
                        const struct message *m, bool firing)
{
    FILE *out = popen(c->command, "we");
    uint32_t i;
    int status;

    if (out == NULL) {
        inm_log(LOG_ERR, "alert %s: %s: %m", c->name, c->command);
        return false;
    }
    fprintf(out, "Network %s, server %s: %u alarm(s) %s\n\n", d->topo->name, d->config.name, m->num,
            firing ? "active" : "over");
    for (i = 0; i < m->num; i++) {
        fprintf(out, "%s  %s  %s\n    %s\n", m->alerts[i].severity, m->alerts[i].name,
                m->alerts[i].place, m->alerts[i].text);
    }
    status = pclose(out);
    if (status != 0) {
        inm_log(LOG_ERR, "alert %s: %s: exit status %d; the server tries again", c->name,
                c->command, status);
    }
    return status == 0;
}

static bool send_message(const struct inmd *d, uint32_t rule, const struct message *m, bool firing)
{
    const struct inm_alert_config *c = &d->config.alerts[rule];

    return (c->url[0] == '\0' || send_webhook(d, c, m, firing)) &&
           (c->command[0] == '\0' || run_command(d, c, m, firing));
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void store_sent(struct inmd *d)
{
    const struct alerts *a = d->alerts;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    uint32_t i;

    if (out == NULL) {
        return;
    }
    for (i = 0; i < a->num_sent; i++) {
        const struct sent *s = &a->sent[i];

        fprintf(out, "%s\t%llu\t%.3f\t%.3f\t%s\t%s\t%s\t%s\n", d->config.alerts[s->rule].name,
                (unsigned long long)s->alarm, s->when, s->raised, s->name, s->severity, s->place,
                s->text);
    }
    fclose(out);
    history_setting(d->history, "alerts", text);
    free(text);
}

/* With the lock held. */
static void remember(struct alerts *a, const struct message *m)
{
    struct sent *old, *more;
    uint32_t i;

    for (i = 0; i < m->num; i++) {
        old = find_sent(a, m->alerts[i].rule, m->alerts[i].alarm);
        if (old != NULL) {
            old->when = m->alerts[i].when;
            continue;
        }
        if (a->num_sent == a->room) {
            more = realloc(a->sent, (a->room * 2 + 64) * sizeof(*more));
            if (more == NULL) {
                return;
            }
            a->sent = more;
            a->room = a->room * 2 + 64;
        }
        a->sent[a->num_sent++] = m->alerts[i];
    }
}

static void forget(struct alerts *a, const struct message *m)
{
    uint32_t i;

    for (i = 0; i < m->num; i++) {
        struct sent *old = find_sent(a, m->alerts[i].rule, m->alerts[i].alarm);

        if (old != NULL) {
            *old = a->sent[--a->num_sent];
        }
    }
}

static void run_rule(struct inmd *d, uint32_t rule)
{
    struct message firing = {0}, resolved = {0};
    double now = now_seconds();
    bool ok;

    if (now < d->alerts->not_before[rule]) {
        return;
    }
    pthread_mutex_lock(&d->lock);
    collect(d, rule, now, &firing);
    collect_ended(d->alerts, rule, &resolved);
    pthread_mutex_unlock(&d->lock);
    ok = firing.num == 0 || send_message(d, rule, &firing, true);
    pthread_mutex_lock(&d->lock);
    if (ok && firing.num > 0) {
        remember(d->alerts, &firing);
    }
    pthread_mutex_unlock(&d->lock);
    if (ok && resolved.num > 0) {
        ok = send_message(d, rule, &resolved, false);
        pthread_mutex_lock(&d->lock);
        if (ok) {
            forget(d->alerts, &resolved);
        }
        pthread_mutex_unlock(&d->lock);
    }
    if (!ok) {
        d->alerts->not_before[rule] = now_seconds() + RETRY_SECONDS;
    } else if (firing.num + resolved.num > 0) {
        store_sent(d);
    }
    free(firing.alerts);
    free(resolved.alerts);
}

void alerts_run(struct inmd *d)
{
    struct alerts *a = d->alerts;
    double now = now_seconds();
    uint32_t i;

    pthread_mutex_lock(&d->lock);
    for (i = a->num_silences; i > 0; i--) {
        if (a->silences[i - 1].until <= now) {
            remove_silence(a, i - 1);
            store_silences(d);
            inmd_touch(d);
        }
    }
    for (i = 0; i < a->num_sent; i++) {
        a->sent[i].active = false;
    }
    pthread_mutex_unlock(&d->lock);
    for (i = 0; i < d->config.num_alerts; i++) {
        run_rule(d, i);
    }
}

static uint32_t rule_of(const struct inmd *d, const char *name)
{
    uint32_t i;

    for (i = 0; i < d->config.num_alerts && strcmp(d->config.alerts[i].name, name) != 0; i++) {
    }
    return i;
}

/* Alerts that the last run sent are not sent again. */
static void restore_sent(struct inmd *d)
{
    char *text = malloc(1 << 20), *line, *rest = NULL, rule[32];
    unsigned long long alarm;
    struct message m = {0};
    struct sent s;

    if (text != NULL && history_get_setting(d->history, "alerts", text, 1 << 20)) {
        for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
            memset(&s, 0, sizeof(s));
            if (sscanf(line, "%31[^\t]\t%llu\t%lf\t%lf\t%31[^\t]\t%15[^\t]\t%159[^\t]\t%255[^\t]",
                       rule, &alarm, &s.when, &s.raised, s.name, s.severity, s.place,
                       s.text) == 8 &&
                rule_of(d, rule) < d->config.num_alerts) {
                s.rule = rule_of(d, rule);
                s.alarm = alarm;
                append(&m, &s);
            }
        }
        remember(d->alerts, &m);
    }
    free(m.alerts);
    free(text);
}

bool alerts_init(struct inmd *d)
{
    d->alerts = calloc(1, sizeof(*d->alerts));
    if (d->alerts == NULL) {
        return false;
    }
    d->alerts->next_silence = 1;
    restore_silences(d);
    restore_sent(d);
    return true;
}

void alerts_free(struct inmd *d)
{
    if (d->alerts != NULL) {
        free(d->alerts->sent);
    }
    free(d->alerts);
}
