/* Calls for load, the past, and the inventory. */
#include "handlers.h"
#include "inm/server/watch/inventory.h"
#include "inm/server/watch/load.h"
#include "inm/server/watch/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP 10

static void put_sum(struct json_object *o, const struct load_sum *sum)
{
    PUT_INT(o, "links", sum->links);
    PUT_REAL(o, "mean", sum->mean);
    PUT_REAL(o, "most", sum->most);
    PUT_REAL(o, "wait", sum->wait);
}

/* With the lock held. */
static struct json_object *levels_json(const struct inmd *d)
{
    struct json_object *list = json_object_new_array(), *o;
    struct load_sum sum;
    uint32_t level;
    int up;

    for (level = INM_LEVEL_BOTTOM_EDGE; level < INM_LEVEL_NUM; level++) {
        for (up = 1; up >= 0; up--) {
            load_of_level(d, level, up, &sum);
            if (sum.links > 0) {
                o = json_object_new_object();
                PUT_TEXT(o, "level", inm_level_name(level));
                PUT_TEXT(o, "direction", up ? "up" : "down");
                put_sum(o, &sum);
                json_object_array_add(list, o);
            }
        }
    }
    return list;
}

static struct json_object *top_json(const struct inmd *d)
{
    struct json_object *list = json_object_new_array(), *o;
    uint32_t ports[TOP], num = load_top(d, ports, TOP), i;
    char name[INM_NAME_MAX];

    for (i = 0; i < num; i++) {
        o = json_object_new_object();
        PUT_TEXT(o, "port", inm_port_name(d->topo, ports[i], name));
        PUT_TEXT(o, "peer",
                 d->found.peer[ports[i]] != INM_NONE ?
                     inm_port_name(d->topo, d->found.peer[ports[i]], name) :
                     "");
        PUT_REAL(o, "use", d->load->use[ports[i]]);
        PUT_REAL(o, "wait", d->load->wait[ports[i]]);
        json_object_array_add(list, o);
    }
    return list;
}

static struct json_object *jobs_json(const struct inmd *d)
{
    struct json_object *list = json_object_new_array(), *o;
    struct load_sum sum;
    uint32_t i;

    for (i = 0; i < d->load->num_jobs; i++) {
        const struct inm_job *job = &d->load->jobs[i];

        load_of_job(d, job, &sum);
        o = json_object_new_object();
        PUT_TEXT(o, "name", job->name);
        PUT_TEXT(o, "hosts", job->hosts);
        PUT_INT(o, "number", job->num);
        put_sum(o, &sum);
        json_object_array_add(list, o);
    }
    return list;
}

void get_load(struct call *call)
{
    struct inmd *d = call->d;
    struct json_object *o = json_object_new_object();

    pthread_mutex_lock(&d->lock);
    PUT_REAL(o, "time", d->load->when);
    PUT_REAL(o, "seconds", d->load->seconds);
    PUT_INT(o, "interval_ms", strcmp(d->config.poll_mode, "single") != 0 ? d->config.poll_ms : 0);
    json_object_object_add(o, "levels", levels_json(d));
    json_object_object_add(o, "top", top_json(d));
    json_object_object_add(o, "jobs", jobs_json(d));
    pthread_mutex_unlock(&d->lock);
    call->reply = o;
}

/* One letter a port: "-" not known, else 0 to 63 of 63 parts in the alphabet of base64. */
static char use_letter(double use)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    return use < 0 ? '-' : letters[(int)(use * 63 + 0.5)];
}

void get_load_links(struct call *call)
{
    struct inmd *d = call->d;
    uint32_t n = d->topo->num_nrc * INM_NRC_PORTS, i;
    char *text = malloc(n + 1);

    if (text == NULL) {
        call_error(call, 500, "no memory");
        return;
    }
    pthread_mutex_lock(&d->lock);
    for (i = 0; i < n; i++) {
        text[i] = use_letter(d->load->use[i]);
    }
    pthread_mutex_unlock(&d->lock);
    text[n] = '\0';
    call->reply = json_object_new_object();
    PUT_TEXT(call->reply, "use", text);
    free(text);
}

void post_job(struct call *call)
{
    char error[200];

    if (!load_set_job(call->d, call_text(call, "name"), call_text(call, "hosts"), error,
                      sizeof(error))) {
        call_error(call, 400, "%s", error);
    }
}

void post_job_delete(struct call *call)
{
    if (!load_delete_job(call->d, call_text(call, "name"))) {
        call_error(call, 404, "no such job");
    }
}

/* ---- the past -------------------------------------------------------------------------------- */

static struct json_object *alarms_of(struct inmd *d, double time)
{
    return history_query(d->history,
                         "SELECT id, cause, CASE severity WHEN 3 THEN 'critical' WHEN 2"
                         " THEN 'major' WHEN 1 THEN 'warning' ELSE 'info' END AS severity, place,"
                         " text, raised, chip, port, other, coalesce(acknowledged, '') AS"
                         " acknowledged, 1 AS folded FROM alarms WHERE raised <= ?1 AND (cleared IS"
                         " NULL OR cleared > ?1) ORDER BY severity DESC LIMIT ?2",
                         time, 1000);
}

void get_past(struct call *call)
{
    struct inmd *d = call->d;
    double time = call_real(call, "time", 0), first, last;
    uint32_t n = d->topo->num_nrc * INM_NRC_PORTS, i;
    struct json_object *o, *down;
    struct snapshot s;
    char *use;

    o = json_object_new_object();
    snapshot_range(d, &first, &last);
    PUT_REAL(o, "first", first);
    PUT_REAL(o, "last", last);
    call->reply = o;
    if (time <= 0 || first <= 0) {
        return;
    }
    if (!snapshot_read(d, time < first ? first : time, &s)) {
        call_error(call, 404, "no snapshot of this topology is that old");
        return;
    }
    use = malloc(n + 1);
    if (use != NULL) {
        down = json_object_new_array();
        for (i = 0; i < n; i++) {
            use[i] = use_letter(s.use[i] <= 100 ? s.use[i] / 100.0 : -1);
            if (s.use[i] == SNAPSHOT_DOWN && (d->topo->peer[i] > i)) {
                json_object_array_add(down, json_object_new_int64(i));
                json_object_array_add(down, json_object_new_int64(d->topo->peer[i]));
            }
        }
        use[n] = '\0';
        PUT_REAL(o, "time", s.time);
        json_object_object_add(
            o, "chips",
            json_object_new_string_len((const char *)s.letters, (int)inm_topo_chips(d->topo)));
        json_object_object_add(o, "down", down);
        PUT_TEXT(o, "use", use);
        json_object_object_add(o, "alarms", alarms_of(d, s.time));
    }
    free(use);
    free(s.bytes);
}

struct chip_history {
    struct json_object *time, *temperature, *retries, *crc_errors, *use;
    uint32_t chip;
};

static void take_chip(void *arg, const struct snapshot *s)
{
    struct chip_history *h = arg;
    uint32_t i, most = 0;

    for (i = 0; i < INM_NRC_PORTS; i++) {
        uint8_t use = s->use[h->chip * INM_NRC_PORTS + i];

        most = use <= 100 && use > most ? use : most;
    }
    json_object_array_add(h->time, json_object_new_double(s->time));
    json_object_array_add(h->temperature, json_object_new_int(s->temperature[h->chip]));
    json_object_array_add(h->retries, json_object_new_int(s->retries[h->chip]));
    json_object_array_add(h->crc_errors, json_object_new_int(s->crc_errors[h->chip]));
    json_object_array_add(h->use, json_object_new_int((int)most));
}

void get_chip_history(struct call *call)
{
    uint32_t chip = call_chip(call, "chip");
    struct chip_history h = {.chip = chip};

    if (chip == INM_NONE) {
        return;
    }
    h.time = json_object_new_array();
    h.temperature = json_object_new_array();
    h.retries = json_object_new_array();
    h.crc_errors = json_object_new_array();
    h.use = json_object_new_array();
    if (chip < call->d->topo->num_nrc) {
        snapshot_each(call->d, call_real(call, "since", now_seconds() - 86400), 200, take_chip, &h);
    }
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "time", h.time);
    json_object_object_add(call->reply, "temperature", h.temperature);
    json_object_object_add(call->reply, "retries", h.retries);
    json_object_object_add(call->reply, "crc_errors", h.crc_errors);
    json_object_object_add(call->reply, "use", h.use);
}

/* ---- inventory ------------------------------------------------------------------------------- */

void get_inventory(struct call *call)
{
    static const char *const columns[] = {"chip",       "type",      "serial", "firmware",
                                          "first_seen", "last_seen", NULL};
    static const char *const netbox[] = {"name",   "role",   "manufacturer", "device_type",
                                         "serial", "status", "comments",     NULL};
    const char *format = call_text(call, "format");
    bool old = call_number(call, "all", 0) != 0;
    struct json_object *rows;

    if (format != NULL && strcmp(format, "netbox") == 0) {
        rows =
            history_query(call->d->history,
                          "SELECT chip AS name, CASE type WHEN 'NRC' THEN"
                          " 'router' ELSE 'interface' END AS role, 'Tianhe' AS manufacturer, type"
                          " AS device_type, serial, 'active' AS status, 'firmware ' ||"
                          " (firmware >> 32) || '.' || ((firmware >> 16) & 65535) || '.' ||"
                          " (firmware & 65535) AS comments FROM parts p WHERE last_seen >= ?1 AND"
                          " last_seen = (SELECT max(last_seen) FROM parts q WHERE q.chip = p.chip)"
                          " ORDER BY chip LIMIT ?2",
                          0, 1000000);
        call_csv(call, rows, netbox, "inm-netbox.csv");
        return;
    }
    rows = history_query(call->d->history,
                         "SELECT chip, type, serial, (firmware >> 32) || '.' ||"
                         " ((firmware >> 16) & 65535) || '.' || (firmware & 65535) AS firmware,"
                         " first_seen, last_seen FROM parts p WHERE ?1 = 1 OR last_seen ="
                         " (SELECT max(last_seen) FROM parts q WHERE q.chip = p.chip)"
                         " ORDER BY chip, last_seen DESC LIMIT ?2",
                         old, 1000000);
    if (format != NULL && strcmp(format, "csv") == 0) {
        call_csv(call, rows, columns, "inm-inventory.csv");
        return;
    }
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "parts", rows);
}

void post_inventory(struct call *call)
{
    if (call_begin_long(call)) {
        call->reply = json_object_new_object();
        PUT_INT(call->reply, "failed", inventory_read(call->d));
        call_end_long(call);
    }
}
