/* Calls that change something, or put load on the network. */
#include "handlers.h"
#include "inm/server/act/access.h"
#include "inm/server/act/bist.h"
#include "inm/server/act/chips.h"
#include "inm/server/act/tables.h"
#include "inm/server/watch/alarms.h"
#include "inm/server/watch/alerts.h"
#include "inm/server/watch/load.h"
#include "inm/server/watch/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void post_login(struct call *call)
{
    const char *name = call_text(call, "name"), *password = call_text(call, "password");
    struct auth_session session;

    switch (auth_login(call->d->auth, name, password, call->address, &session)) {
    case LOGIN_OK:
        call->reply = json_object_new_object();
        PUT_TEXT(call->reply, "user", session.user);
        PUT_TEXT(call->reply, "role", auth_role_name(session.role));
        PUT_TEXT(call->reply, "csrf", session.csrf);
        memcpy(call->new_cookie, session.token, sizeof(call->new_cookie));
        break;
    case LOGIN_TOO_MANY:
        call_error(call, 429, "too many tries: wait a minute");
        break;
    default:
        call_error(call, 401, "name or password is wrong");
    }
}

void post_logout(struct call *call)
{
    auth_logout(call->d->auth, call->session.token);
    call->drop_cookie = true;
}

/* ---- long operations: one at a time ---------------------------------------------------------- */

void post_discover(struct call *call)
{
    struct inmd *d = call->d;
    int64_t window = call_number(call, "window", 0);
    enum inm_network network;

    if (!call_begin_long(call)) {
        return;
    }
    net_set_window(d->net, window > 0 ? (uint32_t)window : d->config.window);
    network = discover_all(d);
    net_set_window(d->net, d->config.window);
    call_end_long(call);
    if (network == NETWORK_GONE || network == NETWORK_NO_LINK) {
        call_error(call, 502, "%s", network_text(network));
        return;
    }
    call->reply = json_object_new_object();
    pthread_mutex_lock(&d->lock);
    PUT_INT(call->reply, "nrc", d->found.num_nrc);
    PUT_INT(call->reply, "nic", d->found.num_nic);
    PUT_INT(call->reply, "links", d->found.num_links);
    PUT_REAL(call->reply, "real_seconds", d->found.real_seconds);
    PUT_REAL(call->reply, "modelled_seconds", (double)d->found.modelled_ns * 1e-9);
    PUT_INT(call->reply, "requests", d->found.requests);
    pthread_mutex_unlock(&d->lock);
}

void post_scan(struct call *call)
{
    struct inmd *d = call->d;
    int64_t window = call_number(call, "window", 0), per_chip = call_number(call, "per_chip", 120);
    struct scan_result r;

    if (!call_begin_long(call)) {
        return;
    }
    net_set_window(d->net, window > 0 ? (uint32_t)window : d->config.window);
    full_scan(d, (uint32_t)per_chip, &r);
    net_set_window(d->net, d->config.window);
    call_end_long(call);
    if (d->stop) {
        call_error(call, 503, "the server stops");
        return;
    }
    call->reply = json_object_new_object();
    PUT_INT(call->reply, "requests", r.requests);
    PUT_INT(call->reply, "failed", r.failed);
    PUT_INT(call->reply, "bits", r.bits);
    PUT_REAL(call->reply, "real_seconds", r.real_seconds);
    PUT_REAL(call->reply, "modelled_seconds", (double)r.modelled_ns * 1e-9);
    PUT_REAL(call->reply, "formula_seconds", r.formula_seconds);
    PUT_REAL(call->reply, "link_share_percent", r.link_share * 100);
    PUT_REAL(call->reply, "out_of_band_seconds", (double)r.requests * 4816.66e-6);
}

void post_poll(struct call *call)
{
    struct inmd *d = call->d;
    const char *mode = call_text(call, "mode");
    int64_t interval = call_number(call, "interval_ms", 0);

    pthread_mutex_lock(&d->lock);
    if (mode != NULL) {
        snprintf(d->config.poll_mode, sizeof(d->config.poll_mode), "%s", mode);
    }
    if (interval != 0) {
        d->config.poll_ms = (uint32_t)interval;
    }
    pthread_mutex_unlock(&d->lock);
    if (!call_begin_long(call)) {
        return;
    }
    call->reply = json_object_new_object();
    PUT_INT(call->reply, "failed", poll_chips(d) + load_poll(d));
    call_end_long(call);
    PUT_REAL(call->reply, "seconds", d->poll_seconds);
}

void post_config(struct call *call)
{
    struct inmd *d = call->d;
    int64_t hot = call_number(call, "hot_limit", d->config.hot_limit);
    int64_t retries = call_number(call, "retry_limit", d->config.retry_limit);

    if (!call_begin_long(call)) {
        return;
    }
    pthread_mutex_lock(&d->lock);
    d->config.hot_limit = (uint32_t)hot;
    d->config.retry_limit = (uint32_t)retries;
    pthread_mutex_unlock(&d->lock);
    call->reply = json_object_new_object();
    PUT_INT(call->reply, "failed", push_config(d, d->config.first_cabinet, d->config.last_cabinet));
    PUT_INT(call->reply, "differ",
            check_config(d, d->config.first_cabinet, d->config.last_cabinet));
    call_end_long(call);
}

static void put_routes(struct call *call, const char *action, const struct route_result *r, bool ok)
{
    struct json_object *o;

    if (!ok && r->message[0] != '\0') {
        call_error(call, 422, "%s", r->message);
        return;
    }
    o = call->reply = json_object_new_object();
    PUT_BOOL(o, "ok", ok);
    PUT_INT(o, "chips", r->chips);
    if (strcmp(action, "generate") == 0) {
        PUT_INT(o, "runs", r->runs);
        PUT_INT(o, "unreachable", r->unreachable);
        PUT_BOOL(o, "deadlock_free", r->deadlock_free);
        PUT_INT(o, "min_load", r->min_load);
        PUT_INT(o, "max_load", r->max_load);
    } else {
        PUT_INT(o, "failed", r->failed);
    }
    if (strcmp(action, "load") == 0) {
        PUT_INT(o, "runs", r->runs);
    } else if (strcmp(action, "verify") == 0) {
        PUT_INT(o, "checked", r->checked);
        PUT_INT(o, "differ", r->differ);
    }
    PUT_REAL(o, "seconds", r->seconds);
}

void post_routes(struct call *call)
{
    const char *action = call_text(call, "action"), *kind = call_text(call, "kind");
    uint32_t chip = INM_NONE;
    struct route_result r;
    bool ok;

    if (call_text(call, "chip") != NULL) {
        chip = call_chip(call, "chip");
        if (chip == INM_NONE) {
            return;
        }
    }
    if (!call_begin_long(call)) {
        return;
    }
    if (strcmp(action, "generate") == 0) {
        ok = routes_generate(call->d, kind != NULL ? route_kind_parse(kind) : ROUTE_UPDOWN, &r);
    } else if (strcmp(action, "load") == 0) {
        ok = routes_load(call->d, &r);
    } else if (strcmp(action, "verify") == 0) {
        ok = routes_verify(call->d, &r);
    } else {
        ok = routes_keep(call->d, chip, &r);
    }
    put_routes(call, action, &r, ok);
    call_end_long(call);
}

/* Marks the ports of a test's target: a port, chip, switch or cabinet, or all. */
static bool bist_target(struct call *call, const char *target, uint8_t *want)
{
    const struct inm_topo *t = call->d->topo;
    uint32_t port = inm_port_parse(t, target), chip;
    char name[INM_NAME_MAX];
    bool found = false, all = strcmp(target, "all") == 0;

    if (port != INM_NONE) {
        want[port] = 1;
        return true;
    }
    for (port = 0; port < inm_topo_ports(t); port++) {
        chip = inm_topo_port_chip(t, port);
        if (all || strcmp(inm_chip_name(t, chip, name), target) == 0 ||
            strcmp(inm_board_name(t, chip, name), target) == 0 ||
            strcmp(inm_cabinet_name(t, chip, name), target) == 0) {
            want[port] = 1;
            found = true;
        }
    }
    return found;
}

void post_bist(struct call *call)
{
    const char *target = call_text(call, "target");
    int64_t us = call_number(call, "us", 10000);
    uint8_t *want = calloc(inm_topo_ports(call->d->topo), 1);
    struct bist_result r;

    if (want == NULL || !bist_target(call, target, want)) {
        call_error(call, 400, "target is the name of a port, chip, switch or cabinet, or all");
    } else if (call_begin_long(call)) {
        bist_run(call->d, want, (uint32_t)us, &r);
        call_end_long(call);
        call->reply = json_object_new_object();
        PUT_INT(call->reply, "links", r.links);
        PUT_INT(call->reply, "tested", r.tested);
        PUT_INT(call->reply, "rounds", r.rounds);
        PUT_INT(call->reply, "bad", r.bad);
        PUT_INT(call->reply, "bridges", r.bridges);
        PUT_INT(call->reply, "failed", r.failed);
        PUT_INT(call->reply, "bits", r.bits);
        PUT_INT(call->reply, "errors", r.errors);
        PUT_REAL(call->reply, "seconds", r.seconds);
    }
    free(want);
}

/* ---- chips ----------------------------------------------------------------------------------- */

void post_reg(struct call *call)
{
    uint32_t chip = call_chip(call, "chip");
    const char *value = call_text(call, "value");

    if (chip != INM_NONE) {
        call_outcome(call, chip_write(call->d, chip, (uint32_t)call_number(call, "addr", 0),
                                      strtoull(value, NULL, value[1] == 'x' ? 16 : 10)));
    }
}

void post_eeprom(struct call *call)
{
    uint32_t chip = call_chip(call, "chip"), num = 0;
    const char *text = call_text(call, "bytes");
    uint8_t bytes[EEPROM_CALL];
    unsigned byte;

    if (chip == INM_NONE) {
        return;
    }
    for (; num < sizeof(bytes) && sscanf(text, "%2x", &byte) == 1; text += 2) {
        bytes[num++] = (uint8_t)byte;
    }
    call_outcome(
        call, chip_eeprom_write(call->d, chip, (uint32_t)call_number(call, "addr", 0), num, bytes));
}

/* ---- alarms, users, layout ------------------------------------------------------------------- */

void post_ack(struct call *call)
{
    struct inmd *d = call->d;
    int64_t id = call_number(call, "id", -1);
    const char *comment = call_text(call, "comment");
    char place[160], text[512], what[256];
    bool found = false;
    uint32_t i;

    pthread_mutex_lock(&d->lock);
    for (i = 0; i < d->num_alarms; i++) {
        if ((int64_t)d->alarms[i].id == id) {
            snprintf(d->alarms[i].acknowledged, sizeof(d->alarms[i].acknowledged), "%s%s%s",
                     call->session.user, comment != NULL ? ": " : "",
                     comment != NULL ? comment : "");
            history_alarm_acknowledged(d->history, d->alarms[i].id, d->alarms[i].acknowledged);
            alarm_text(d, &d->alarms[i], place, sizeof(place), what, sizeof(what));
            snprintf(text, sizeof(text), "%s%s%s", what, comment != NULL ? "; comment: " : "",
                     comment != NULL ? comment : "");
            history_log(d->history, &(struct log_entry){.kind = "acknowledged",
                                                        .severity = d->alarms[i].severity,
                                                        .place = place,
                                                        .user = call->session.user,
                                                        .address = call->address,
                                                        .text = text});
            found = true;
        }
    }
    inmd_touch(d);
    pthread_mutex_unlock(&d->lock);
    if (!found) {
        call_error(call, 404, "no active alarm has this id");
    }
}

void post_user(struct call *call)
{
    const char *name = call_text(call, "name"), *role = call_text(call, "role");
    const char *password = call_text(call, "password");

    if (!auth_set_user(call->d->auth, name, auth_role_parse(role), password)) {
        call_error(call, 400,
                   "a name of letters, digits, . _ -; a password of 8 to 256 "
                   "characters; role viewer, operator or administrator");
    }
}

void post_user_delete(struct call *call)
{
    const char *name = call_text(call, "name");

    if (!auth_delete_user(call->d->auth, name)) {
        call_error(call, 404, "no such user");
    }
}

void post_layout(struct call *call)
{
    history_setting(call->d->history, "layout",
                    json_object_to_json_string_ext(call->body, JSON_C_TO_STRING_PLAIN));
}

void post_silence(struct call *call)
{
    const char *comment = call_text(call, "comment");
    double until = now_seconds() + 60.0 * (double)call_number(call, "minutes", 60);
    uint32_t id = alerts_silence(call->d, call_text(call, "place"), until, call->session.user,
                                 comment != NULL ? comment : "");

    if (id == 0) {
        call_error(call, 409, "%d silences are the most", MAX_SILENCES);
        return;
    }
    call->reply = json_object_new_object();
    PUT_INT(call->reply, "id", id);
}

void post_silence_delete(struct call *call)
{
    if (!alerts_end_silence(call->d, (uint32_t)call_number(call, "id", 0))) {
        call_error(call, 404, "no silence has this number");
    }
}
