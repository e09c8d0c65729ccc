/* Calls that change nothing. */
#include "handlers.h"
#include "inm/server/act/access.h"
#include "inm/server/act/chips.h"
#include "inm/server/act/trace.h"
#include "inm/server/watch/alarms.h"
#include "inm/server/watch/alerts.h"
#include "inm/server/watch/status.h"
#include "metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static void put_port(struct json_object *o, const struct inm_topo *topo, const char *name,
                     uint32_t port)
{
    char buf[INM_NAME_MAX];

    if (port != INM_NONE) {
        PUT_TEXT(o, name, inm_port_name(topo, port, buf));
    } else {
        json_object_object_add(o, name, NULL);
    }
}

void get_health(struct call *call)
{
    struct inmd *d = call->d;

    call->reply = json_object_new_object();
    PUT_TEXT(call->reply, "name", d->config.name);
    pthread_mutex_lock(&d->lock);
    PUT_BOOL(call->reply, "network", net_alive(d->net) && d->network == NETWORK_OK);
    pthread_mutex_unlock(&d->lock);
    PUT_REAL(call->reply, "up_seconds", now_seconds() - d->started);
}

void get_metrics(struct call *call)
{
    call->text = metrics_text(call->d, &call->text_len);
    call->type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

void get_session(struct call *call)
{
    call->reply = json_object_new_object();
    PUT_TEXT(call->reply, "user", call->session.user);
    PUT_TEXT(call->reply, "role", auth_role_name(call->session.role));
    PUT_TEXT(call->reply, "csrf", call->session.csrf);
}

static void put_discovery(struct json_object *o, const struct inm_found *f)
{
    PUT_INT(o, "nrc", f->num_nrc);
    PUT_INT(o, "nic", f->num_nic);
    PUT_INT(o, "links", f->num_links);
    PUT_REAL(o, "real_seconds", f->real_seconds);
    PUT_REAL(o, "modelled_seconds", (double)f->modelled_ns * 1e-9);
    PUT_INT(o, "requests", f->requests);
}

void get_summary(struct call *call)
{
    struct inmd *d = call->d;
    struct json_object *o = json_object_new_object(), *found = json_object_new_object();
    struct net_stats stats;
    struct rusage usage;
    uint32_t i, severity[4] = {0};

    net_get_stats(d->net, &stats);
    getrusage(RUSAGE_SELF, &usage);
    pthread_mutex_lock(&d->lock);
    for (i = 0; i < d->num_alarms; i++) {
        severity[d->alarms[i].severity & 3]++;
    }
    PUT_TEXT(o, "server", d->config.name);
    PUT_TEXT(o, "topology", d->topo->name);
    PUT_INT(o, "expected_nrc", d->topo->num_nrc);
    PUT_INT(o, "expected_nic", d->topo->num_nic);
    PUT_INT(o, "expected_links", d->topo->num_links);
    put_discovery(found, &d->found);
    json_object_object_add(o, "found", found);
    PUT_TEXT(o, "network", network_text(d->network));
    PUT_INT(o, "alarms", d->num_alarms);
    PUT_INT(o, "critical", severity[SEVERITY_CRITICAL]);
    PUT_INT(o, "major", severity[SEVERITY_MAJOR]);
    PUT_INT(o, "warning", severity[SEVERITY_WARNING]);
    PUT_INT(o, "reports", d->reports);
    PUT_INT(o, "reports_missing", d->reports_missing + stats.reports_dropped);
    PUT_INT(o, "events", d->next_event - 1);
    PUT_INT(o, "polls", d->polls);
    PUT_REAL(o, "poll_seconds", d->poll_seconds);
    PUT_TEXT(o, "poll_mode", d->config.poll_mode);
    PUT_INT(o, "poll_interval_ms", d->config.poll_ms);
    PUT_TEXT(o, "routes", d->tables != NULL ? d->table_kind : "none");
    PUT_INT(o, "version", d->version);
    pthread_mutex_unlock(&d->lock);
    PUT_INT(o, "requests", stats.requests);
    PUT_INT(o, "retries", stats.retries);
    PUT_INT(o, "lost", stats.lost);
    PUT_INT(o, "refused", stats.refused);
    PUT_INT(o, "memory_kib", usage.ru_maxrss);
    call->reply = o;
}

/* Columns of numbers: a page draws 24,160 chips from them. */
void get_topology(struct call *call)
{
    const struct inm_topo *t = call->d->topo;
    FILE *out = open_memstream(&call->text, &call->text_len);
    uint32_t i, n = inm_topo_chips(t);

    if (out == NULL) {
        call_error(call, 500, "no memory");
        return;
    }
    fprintf(out,
            "{\"name\":\"%s\",\"nrc\":%u,\"nic\":%u,\"boards\":%u,\"cabinets\":%u,"
            "\"tree\":%s,\"server\":%u,\"racks\":%u,\"level\":[",
            t->name, t->num_nrc, t->num_nic, t->num_boards, inm_topo_cabinets(t),
            t->tree.racks != 0 ? "true" : "false", t->server,
            t->tree.racks + t->tree.service_racks);
#define COLUMN(name, value)                                                                        \
    fprintf(out, "%s", name);                                                                      \
    for (i = 0; i < n; i++) {                                                                      \
        fprintf(out, "%s%u", i > 0 ? "," : "", (unsigned)(value));                                 \
    }
    COLUMN("", t->chips[i].level)
    COLUMN("],\"cabinet\":[", inm_chip_cabinet(t, i))
    COLUMN("],\"number\":[", t->chips[i].cabinet)
    COLUMN("],\"frame\":[", t->chips[i].frame)
    COLUMN("],\"index\":[", t->chips[i].index)
    COLUMN("],\"slot\":[", t->chips[i].slot)
    COLUMN("],\"board\":[", t->chips[i].board)
#undef COLUMN
    fprintf(out, "],\"links\":[");
    for (i = 0, n = 0; i < inm_topo_ports(t); i++) {
        if (i < t->peer[i] && t->peer[i] != INM_NONE) {
            fprintf(out, "%s%u,%u", n++ > 0 ? "," : "", i, t->peer[i]);
        }
    }
    fprintf(out, "]}");
    fclose(out);
    call->type = "application/json";
}

static struct json_object *alarm_json(struct inmd *d, const struct inm_alarm *a)
{
    struct json_object *o = json_object_new_object();
    char place[160], text[300];

    alarm_text(d, a, place, sizeof(place), text, sizeof(text));
    PUT_INT(o, "id", a->id);
    PUT_TEXT(o, "cause", alarm_cause(a->cause));
    PUT_TEXT(o, "severity", severity_name(a->severity));
    PUT_TEXT(o, "place", place);
    PUT_TEXT(o, "text", text);
    PUT_INT(o, "folded", a->folded);
    PUT_REAL(o, "raised", a->raised);
    PUT_TEXT(o, "acknowledged", a->acknowledged);
    PUT_BOOL(o, "silenced", alerts_silenced(d, place));
    PUT_INT(o, "chip", a->chip == INM_NONE ? -1 : (int64_t)a->chip);
    PUT_INT(o, "port", a->port == INM_NONE ? -1 : (int64_t)a->port);
    PUT_INT(o, "other", a->other == INM_NONE ? -1 : (int64_t)a->other);
    return o;
}

void get_alarms(struct call *call)
{
    struct inmd *d = call->d;
    struct json_object *list = json_object_new_array();
    uint32_t i;

    if (call_number(call, "all", 0) != 0) {
        json_object_put(list);
        history_flush(d->history);
        list = history_query(d->history,
                             "SELECT id, cause, CASE severity WHEN 3 THEN 'critical' WHEN"
                             " 2 THEN 'major' WHEN 1 THEN 'warning' ELSE 'info' END AS severity, "
                             "place, text, raised, cleared,"
                             " acknowledged FROM alarms WHERE id > ?1 ORDER BY id DESC LIMIT ?2",
                             0, 1000);
    } else {
        pthread_mutex_lock(&d->lock);
        for (i = 0; i < d->num_alarms; i++) {
            json_object_array_add(list, alarm_json(d, &d->alarms[i]));
        }
        pthread_mutex_unlock(&d->lock);
    }
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "alarms", list);
}

void get_state(struct call *call)
{
    struct inmd *d = call->d;
    struct json_object *o = json_object_new_object(), *list = json_object_new_array();
    struct json_object *alarms = json_object_new_array();
    char *letters = malloc(inm_topo_chips(d->topo) + 1);
    uint32_t port, i;

    if (letters == NULL) {
        call_error(call, 500, "no memory");
        return;
    }
    pthread_mutex_lock(&d->lock);
    chip_letters(d, letters);
    for (port = 0; port < inm_topo_ports(d->topo); port++) {
        uint32_t peer = d->topo->peer[port];

        if (peer != INM_NONE && port < peer && (d->status.down[port] || d->status.down[peer])) {
            json_object_array_add(list, json_object_new_int64(port));
            json_object_array_add(list, json_object_new_int64(peer));
        }
    }
    for (i = 0; i < d->num_alarms; i++) {
        json_object_array_add(alarms, alarm_json(d, &d->alarms[i]));
    }
    PUT_INT(o, "version", d->version);
    PUT_INT(o, "reports", d->reports);
    pthread_mutex_unlock(&d->lock);
    PUT_TEXT(o, "chips", letters);
    json_object_object_add(o, "down", list);
    json_object_object_add(o, "alarms", alarms);
    free(letters);
    call->reply = o;
}

/* Links that are missing, and links that the topology does not have. */
void get_differences(struct call *call)
{
    struct inmd *d = call->d;
    struct json_object *list = json_object_new_array(), *o;
    uint32_t port, n = 0;

    pthread_mutex_lock(&d->lock);
    for (port = 0; port < inm_topo_ports(d->topo) && n < 1000; port++) {
        uint32_t found = d->found.peer[port], expected = d->topo->peer[port];

        if (found == expected || (found == INM_NONE && port > expected)) {
            continue;
        }
        o = json_object_new_object();
        put_port(o, d->topo, "port", port);
        put_port(o, d->topo, "found", found);
        put_port(o, d->topo, "expected", expected);
        json_object_array_add(list, o);
        n++;
    }
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "differences", list);
    PUT_INT(call->reply, "missing", d->found.num_missing);
    PUT_INT(call->reply, "other", d->found.num_differ);
    PUT_INT(call->reply, "unknown_chips", d->found.num_unknown);
    PUT_TEXT(call->reply, "network", network_text(d->network));
    pthread_mutex_unlock(&d->lock);
}

static struct json_object *event_json(const struct inmd *d, const struct inm_event *e)
{
    struct json_object *o = json_object_new_object();
    char name[INM_NAME_MAX];

    PUT_INT(o, "id", e->id);
    PUT_REAL(o, "time", e->time);
    PUT_TEXT(o, "event", nmp_event_name(e->event));
    PUT_TEXT(o, "severity", severity_name(e->severity));
    PUT_TEXT(o, "place",
             e->port != INM_NONE ? inm_port_name(d->topo, e->port, name) :
                                   inm_chip_name(d->topo, e->chip, name));
    PUT_INT(o, "value", e->value);
    return o;
}

void get_events(struct call *call)
{
    struct inmd *d = call->d;
    uint64_t from = (uint64_t)call_number(call, "since", 0) + 1, id;
    uint64_t room = (uint64_t)call_number(call, "limit", 200);
    struct json_object *list = json_object_new_array();

    pthread_mutex_lock(&d->lock);
    if (d->next_event > room && from < d->next_event - room) {
        from = d->next_event - room; /* the latest */
    }
    for (id = from; id < d->next_event; id++) {
        const struct inm_event *e = &d->events[id % INM_EVENTS];

        if (e->id == id) {
            json_object_array_add(list, event_json(d, e));
        }
    }
    pthread_mutex_unlock(&d->lock);
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "events", list);
}

static enum inm_severity severity_of(const char *name)
{
    unsigned i;

    for (i = SEVERITY_CRITICAL; i > 0 && (name == NULL || strcmp(name, severity_name(i)) != 0);
         i--) {
    }
    return (enum inm_severity)i;
}

void get_log(struct call *call)
{
    static const char *const columns[] = {"id",   "time",    "kind", "severity", "place",
                                          "user", "address", "text", NULL};
    const char *format = call_text(call, "format");
    struct log_filter filter = {.severity = severity_of(call_text(call, "severity")),
                                .place = call_text(call, "place"),
                                .user = call_text(call, "user"),
                                .kind = call_text(call, "kind"),
                                .from = call_real(call, "from", 0),
                                .to = call_real(call, "to", 0),
                                .before = call_number(call, "before", 0),
                                .limit = (uint32_t)call_number(call, "limit", 200),
                                .no_changes = call->session.role < ROLE_ADMINISTRATOR};
    struct json_object *rows = history_read_log(call->d->history, &filter);

    if (format != NULL && strcmp(format, "csv") == 0) {
        call_csv(call, rows, columns, "inm-log.csv");
        return;
    }
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "log", rows);
}

void get_users(struct call *call)
{
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "users",
                           history_query(call->d->history,
                                         "SELECT name, role FROM users WHERE "
                                         "role >= ?1 ORDER BY name LIMIT ?2",
                                         0, 1000));
}

void get_samples(struct call *call)
{
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "samples",
                           history_query(call->d->history,
                                         "SELECT time, name, value FROM samples "
                                         "WHERE time > ?1 ORDER BY time LIMIT ?2",
                                         call_real(call, "since", 0), 20000));
}

/* ---- chips ----------------------------------------------------------------------------------- */

void get_chip(struct call *call)
{
    struct inmd *d = call->d;
    uint32_t chip = call_chip(call, "chip");
    struct json_object *o;
    char buf[64];
    uint64_t value = 0;
    int outcome;

    if (chip == INM_NONE) {
        return;
    }
    outcome = chip_read(d, chip, REG_TEMPERATURE, &value);
    o = json_object_new_object();
    PUT_TEXT(o, "chip", inm_chip_name(d->topo, chip, buf));
    PUT_TEXT(o, "place", inm_chip_place(d->topo, chip, buf));
    PUT_TEXT(o, "type", d->topo->chips[chip].type == NMP_CHIP_NRC ? "NRC" : "NIC");
    PUT_TEXT(o, "level", inm_level_name(d->topo->chips[chip].level));
    PUT_INT(o, "id", inm_chip_id(d->topo, chip));
    PUT_TEXT(o, "board", inm_board_name(d->topo, chip, buf));
    PUT_TEXT(o, "answers", outcome_text(outcome));
    PUT_REAL(o, "temperature", (double)(int64_t)value / 1000);
    pthread_mutex_lock(&d->lock);
    PUT_BOOL(o, "found", d->found.seen != NULL && d->found.seen[chip]);
    PUT_INT(o, "hops", d->found.hop != NULL ? d->found.hop[chip] : 0);
    PUT_INT(o, "retries", d->status.retries[chip]);
    PUT_INT(o, "retries_since_poll", d->status.retry_delta[chip]);
    pthread_mutex_unlock(&d->lock);
    call->reply = o;
}

/* Status and counters of all ports of a chip: 3 requests of 2 registers a port, all at once. */
void get_ports(struct call *call)
{
    struct inmd *d = call->d;
    uint32_t chip = call_chip(call, "chip"), ports, i, k;
    struct json_object *list = json_object_new_array(), *o;
    struct net_req reqs[INM_NRC_PORTS * 4], first;
    struct inm_route route;

    if (chip == INM_NONE || !request_for(d, chip, GLEX_MGMT_REG_READ_REQ, &first, &route)) {
        json_object_put(list);
        if (chip != INM_NONE) {
            call_error(call, 502, "the chip was not found in the network");
        }
        return;
    }
    ports = inm_chip_ports(d->topo, chip);
    for (i = 0; i < ports * 4; i++) {
        reqs[i] = first;
        reqs[i].count = 2;
        for (k = 0; k < 2; k++) {
            reqs[i].addr[k] = (uint16_t)(REG_PORT(i / 4) + i % 4 * 2 + k);
        }
    }
    net_run(d->net, reqs, ports * 4);
    pthread_mutex_lock(&d->lock);
    for (i = 0; i < ports; i++) {
        const struct net_req *r = &reqs[i * 4];
        uint32_t port = inm_topo_port(d->topo, chip, i);

        o = json_object_new_object();
        PUT_INT(o, "port", i);
        PUT_BOOL(o, "answers", r[0].outcome == NET_OK);
        PUT_BOOL(o, "enabled", r[0].reg[0] & PORT_ENABLE);
        PUT_BOOL(o, "up", r[0].reg[1] & PORT_STATUS_UP);
        PUT_INT(o, "lanes", PORT_STATUS_LANES(r[0].reg[1]));
        PUT_INT(o, "handshakes", r[1].reg[0]);
        PUT_INT(o, "retries", r[1].reg[1]);
        PUT_INT(o, "crc_errors", r[2].reg[0]);
        PUT_INT(o, "tx_flits", r[2].reg[1]);
        PUT_INT(o, "rx_flits", r[3].reg[0]);
        put_port(o, d->topo, "peer", d->found.peer[port]);
        put_port(o, d->topo, "expected", d->topo->peer[port]);
        json_object_array_add(list, o);
    }
    pthread_mutex_unlock(&d->lock);
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "ports", list);
}

void get_reg(struct call *call)
{
    uint32_t chip = call_chip(call, "chip"), addr = (uint32_t)call_number(call, "addr", 0);
    uint64_t value = 0;
    char text[32];
    int outcome;

    if (chip == INM_NONE) {
        return;
    }
    outcome = chip_read(call->d, chip, addr, &value);
    if (outcome != NET_OK) {
        call_outcome(call, outcome);
        return;
    }
    call->reply = json_object_new_object();
    snprintf(text, sizeof(text), "0x%016llx", (unsigned long long)value);
    PUT_INT(call->reply, "addr", addr);
    PUT_TEXT(call->reply, "value", text);
}

void get_eeprom(struct call *call)
{
    uint32_t chip = call_chip(call, "chip"), i;
    uint32_t addr = (uint32_t)call_number(call, "addr", 0);
    uint32_t num = (uint32_t)call_number(call, "num", 1);
    uint8_t bytes[EEPROM_CALL];
    char text[2 * EEPROM_CALL + 1];
    int outcome;

    if (chip == INM_NONE) {
        return;
    }
    outcome = chip_eeprom_read(call->d, chip, addr, num, bytes);
    if (outcome != NET_OK) {
        call_outcome(call, outcome);
        return;
    }
    for (i = 0; i < num; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    call->reply = json_object_new_object();
    PUT_INT(call->reply, "addr", addr);
    PUT_TEXT(call->reply, "bytes", text);
}

void get_trace(struct call *call)
{
    struct inmd *d = call->d;
    uint32_t from = call_chip(call, "from"), to, n, i;
    struct json_object *list, *o;
    struct trace_hop hops[TRACE_MAX];
    char error[200] = "", name[INM_NAME_MAX];

    to = from != INM_NONE ? call_chip(call, "to") : INM_NONE;
    if (to == INM_NONE) {
        return;
    }
    if (from < d->topo->num_nrc || to < d->topo->num_nrc) {
        call_error(call, 400, "a trace goes from a host to a host, such as r0f0h0");
        return;
    }
    n = trace(d, from, to, hops, error, sizeof(error));
    if (n == 0) {
        call_error(call, 422, "%s", error);
        return;
    }
    list = json_object_new_array();
    for (i = 0; i < n; i++) {
        o = json_object_new_object();
        PUT_TEXT(o, "chip", inm_chip_name(d->topo, hops[i].chip, name));
        PUT_TEXT(o, "level", inm_level_name(d->topo->chips[hops[i].chip].level));
        put_port(o, d->topo, "in", hops[i].in);
        put_port(o, d->topo, "out", hops[i].out);
        PUT_INT(o, "choices", __builtin_popcount(hops[i].choices));
        PUT_BOOL(o, "up", hops[i].up);
        PUT_INT(o, "lanes", hops[i].lanes);
        PUT_INT(o, "retries", hops[i].retries);
        json_object_array_add(list, o);
    }
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "hops", list);
}

/* Traffic of management and retries, by level of the tree. */
void get_traffic(struct call *call)
{
    struct inmd *d = call->d;
    struct json_object *levels = json_object_new_array(), *top = json_object_new_array(), *o;
    uint64_t retries[INM_LEVEL_NUM] = {0}, delta[INM_LEVEL_NUM] = {0};
    uint32_t chips[INM_LEVEL_NUM] = {0}, i, k, best;
    char name[INM_NAME_MAX];
    uint8_t *used = calloc(d->topo->num_nrc, 1);
    struct net_stats stats;

    net_get_stats(d->net, &stats);
    pthread_mutex_lock(&d->lock);
    for (i = 0; i < d->topo->num_nrc; i++) {
        k = d->topo->chips[i].level;
        chips[k]++;
        retries[k] += d->status.retries[i];
        delta[k] += d->status.retry_delta[i];
    }
    for (k = 0; k < 20 && used != NULL; k++) { /* the chips with most new retries */
        best = INM_NONE;
        for (i = 0; i < d->topo->num_nrc; i++) {
            if (!used[i] && d->status.retry_delta[i] > 0 &&
                (best == INM_NONE || d->status.retry_delta[i] > d->status.retry_delta[best])) {
                best = i;
            }
        }
        if (best == INM_NONE) {
            break;
        }
        used[best] = 1;
        o = json_object_new_object();
        PUT_TEXT(o, "chip", inm_chip_name(d->topo, best, name));
        PUT_INT(o, "retries", d->status.retries[best]);
        PUT_INT(o, "since_poll", d->status.retry_delta[best]);
        json_object_array_add(top, o);
    }
    pthread_mutex_unlock(&d->lock);
    free(used);
    for (k = INM_LEVEL_BOTTOM_EDGE; k < INM_LEVEL_NUM; k++) {
        o = json_object_new_object();
        PUT_TEXT(o, "level", inm_level_name(k));
        PUT_INT(o, "chips", chips[k]);
        PUT_INT(o, "retries", retries[k]);
        PUT_INT(o, "since_poll", delta[k]);
        json_object_array_add(levels, o);
    }
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "levels", levels);
    json_object_object_add(call->reply, "top", top);
    PUT_INT(call->reply, "requests", stats.requests);
    PUT_INT(call->reply, "responses", stats.responses);
    PUT_INT(call->reply, "reports", stats.reports);
    PUT_INT(call->reply, "bytes", (stats.requests + stats.responses + stats.reports) * 99);
}

void get_search(struct call *call)
{
    const struct inm_topo *t = call->d->topo;
    const char *text = call_text(call, "q");
    struct json_object *list = json_object_new_array();
    char name[INM_NAME_MAX];
    uint32_t i, n = 0;

    for (i = 0; text != NULL && text[0] != '\0' && i < inm_topo_chips(t) && n < 50; i++) {
        inm_chip_name(t, i, name);
        if (strncmp(name, text, strlen(text)) == 0) {
            json_object_array_add(list, json_object_new_string(name));
            n++;
        }
    }
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "chips", list);
}

void get_layout(struct call *call)
{
    static const size_t size = 1 << 20;
    char *text = malloc(size);

    if (text == NULL || !history_get_setting(call->d->history, "layout", text, size)) {
        free(text);
        call->reply = json_object_new_object();
        return;
    }
    call->text = text;
    call->text_len = strlen(text);
    call->type = "application/json";
}

void get_config(struct call *call)
{
    struct inmd *d = call->d;
    struct json_object *o = json_object_new_object();

    PUT_INT(o, "differ", check_config(d, d->config.first_cabinet, d->config.last_cabinet));
    PUT_INT(o, "hot_limit", d->config.hot_limit);
    PUT_INT(o, "retry_limit", d->config.retry_limit);
    call->reply = o;
}

void get_silences(struct call *call)
{
    struct json_object *list = json_object_new_array(), *o;
    const struct inm_silence *s;
    uint32_t num, i;

    pthread_mutex_lock(&call->d->lock);
    num = alerts_silences(call->d, &s);
    for (i = 0; i < num; i++) {
        o = json_object_new_object();
        PUT_INT(o, "id", s[i].id);
        PUT_TEXT(o, "place", s[i].place);
        PUT_REAL(o, "until", s[i].until);
        PUT_TEXT(o, "user", s[i].user);
        PUT_TEXT(o, "comment", s[i].comment);
        json_object_array_add(list, o);
    }
    pthread_mutex_unlock(&call->d->lock);
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "silences", list);
}
