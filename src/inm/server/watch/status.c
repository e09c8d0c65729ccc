/* Conditions of the network from reports, discovery and polls; see status.h. */
#include "status.h"
#include "inm/server/act/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool status_init(struct inmd *d)
{
    struct inm_status *s = &d->status;
    uint32_t chips = inm_topo_chips(d->topo), ports = inm_topo_ports(d->topo);

    s->down = calloc(ports, 1);
    s->lanes = calloc(ports, 1);
    s->hot = calloc(chips, 1);
    s->mute = calloc(chips, 1);
    s->temperature = calloc(chips, sizeof(*s->temperature));
    s->flaps = calloc(ports, sizeof(*s->flaps));
    s->flap_time = calloc(ports, sizeof(*s->flap_time));
    s->retry_time = calloc(ports, sizeof(*s->retry_time));
    s->retries = calloc(chips, sizeof(*s->retries));
    s->retry_delta = calloc(chips, sizeof(*s->retry_delta));
    s->crc_errors = calloc(chips, sizeof(*s->crc_errors));
    s->crc_delta = calloc(chips, sizeof(*s->crc_delta));
    s->bist_errors = calloc(ports, sizeof(*s->bist_errors));
    s->seq = calloc(chips, sizeof(*s->seq));
    d->events = calloc(INM_EVENTS, sizeof(*d->events));
    d->gone = calloc(chips, 1);
    d->cut = calloc(ports, 1);
    return d->gone && d->cut && s->down && s->lanes && s->hot && s->mute && s->temperature &&
           s->flaps && s->flap_time && s->retry_time && s->retries && s->retry_delta &&
           s->bist_errors && s->crc_errors && s->crc_delta && s->seq && d->events;
}

void status_free(struct inmd *d)
{
    struct inm_status *s = &d->status;

    free(s->down);
    free(s->lanes);
    free(s->hot);
    free(s->mute);
    free(s->temperature);
    free(s->flaps);
    free(s->flap_time);
    free(s->retry_time);
    free(s->retries);
    free(s->retry_delta);
    free(s->crc_errors);
    free(s->crc_delta);
    free(s->bist_errors);
    free(s->seq);
    free(d->events);
    free(d->gone);
    free(d->cut);
    free(d->alarms);
}

/* ---- reports --------------------------------------------------------------------------------- */

static void add_event(struct inmd *d, unsigned event, unsigned severity, uint32_t chip,
                      uint32_t port, uint64_t value)
{
    struct inm_event *e = &d->events[d->next_event % INM_EVENTS];

    *e = (struct inm_event){.id = d->next_event,
                            .time = now_seconds(),
                            .event = (uint8_t)event,
                            .severity = (uint8_t)severity,
                            .chip = chip,
                            .port = port,
                            .value = value};
    d->next_event++;
    history_event(d->history, e);
}

static void count_flap(struct inm_status *s, uint32_t port, double now)
{
    if (now - s->flap_time[port] > FLAP_SECONDS) {
        s->flap_time[port] = now;
        s->flaps[port] = 0;
    }
    s->flaps[port]++;
}

/* Returns the other end of a link; for a missing link, the expected end. */
static uint32_t other_end(const struct inmd *d, uint32_t port)
{
    return d->found.peer[port] != INM_NONE ? d->found.peer[port] : d->topo->peer[port];
}

static void link_report(struct inmd *d, uint32_t port, bool up)
{
    struct inm_status *s = &d->status;
    double now = now_seconds();

    if (!up && !s->down[port]) {
        count_flap(s, port, now);
    }
    s->down[port] = !up;
    if (up) { /* both ends are up, or none is */
        uint32_t other = other_end(d, port);

        if (other != INM_NONE) {
            s->down[other] = 0;
        }
    }
    /* The wires may have changed: look again when it is quiet, but not for ever later. */
    if (d->rediscover == 0) {
        d->rediscover = now + 0.5;
    }
}

void status_report(struct inmd *d, const struct net_report *report)
{
    uint32_t chip = inm_topo_find(d->topo, report->chip, report->id), port = INM_NONE;
    struct inm_status *s = &d->status;
    unsigned severity = SEVERITY_WARNING;

    d->reports++;
    if (chip == INM_NONE) {
        return;
    }
    if (report->port < inm_chip_ports(d->topo, chip)) {
        port = inm_topo_port(d->topo, chip, report->port);
    }
    if (s->seq[chip] != 0 && report->seq > s->seq[chip] + 1) {
        d->reports_missing += report->seq - s->seq[chip] - 1;
    }
    s->seq[chip] = report->seq;
    switch (report->event) {
    case NMP_EVENT_LINK_DOWN:
    case NMP_EVENT_LINK_UP:
        severity = report->event == NMP_EVENT_LINK_DOWN ? SEVERITY_MAJOR : SEVERITY_INFO;
        if (port != INM_NONE) {
            link_report(d, port, report->event == NMP_EVENT_LINK_UP);
        }
        break;
    case NMP_EVENT_HOT:
    case NMP_EVENT_COOL:
        severity = report->event == NMP_EVENT_HOT ? SEVERITY_MAJOR : SEVERITY_INFO;
        s->hot[chip] = report->event == NMP_EVENT_HOT;
        s->temperature[chip] = (int32_t)(int64_t)report->value;
        break;
    case NMP_EVENT_RETRY:
        if (port != INM_NONE) {
            s->retry_time[port] = now_seconds();
        }
        break;
    case NMP_EVENT_WIDTH:
        if (port != INM_NONE) {
            s->lanes[port] = (uint8_t)report->value;
        }
        break;
    default:
        severity = SEVERITY_INFO;
    }
    add_event(d, report->event, severity, chip, port, report->value);
    d->dirty = true;
}

static void status_from_found(struct inmd *d)
{
    const struct inm_found *f = &d->found;
    uint32_t chip, i, port;

    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        d->status.mute[chip] = f->seen[chip] && !f->answers[chip];
        for (i = 0; i < INM_NRC_PORTS; i++) {
            port = inm_topo_port(d->topo, chip, i);
            d->status.down[port] =
                f->answers[chip] && d->topo->peer[port] != INM_NONE && f->peer[port] == INM_NONE;
        }
    }
    for (; chip < inm_topo_chips(d->topo); chip++) {
        d->status.down[inm_topo_port(d->topo, chip, 0)] = 0;
    }
    d->dirty = true;
}

/* ---- discovery ------------------------------------------------------------------------------- */

static const char *const network_names[] = {"ok", "this host's NIC does not answer",
                                            "this host's NIC has no link to a router",
                                            "the network is not the one of the topology"};

/* Logs a discovery whose result differs from the one before it, or from the topology. */
static void log_discovery(struct inmd *d, enum inm_network network, enum inm_network before,
                          const struct inm_found *old)
{
    const struct inm_found *f = &d->found;
    bool first = old->when == 0;
    char text[300];

    if (network != NETWORK_OK && network == before && !first) {
        return;
    }
    if (network != NETWORK_OK && network != NETWORK_WRONG_TOPOLOGY) {
        snprintf(text, sizeof(text), "no discovery: %s", network_names[network]);
    } else {
        snprintf(text, sizeof(text),
                 "found %u of %u NRCs, %u of %u NICs, %u of %u links; %u links "
                 "are missing, %u are not in the topology, %u chips are unknown",
                 f->num_nrc, d->topo->num_nrc, f->num_nic, d->topo->num_nic, f->num_links,
                 d->topo->num_links, f->num_missing, f->num_differ, f->num_unknown);
        if (network == before && f->num_missing == old->num_missing &&
            f->num_differ == old->num_differ && f->num_unknown == old->num_unknown &&
            f->num_nrc == old->num_nrc && (!first || f->num_missing == 0)) {
            return;
        }
    }
    inm_log(network == NETWORK_OK ? LOG_NOTICE : LOG_ERR, "%s", text);
    history_log(d->history, &(struct log_entry){
                                .kind = "discovery",
                                .text = text,
                                .severity = network != NETWORK_OK ? SEVERITY_CRITICAL :
                                            f->num_missing + f->num_differ + f->num_unknown != 0 ?
                                                                    SEVERITY_WARNING :
                                                                    SEVERITY_INFO});
}

enum inm_network discover_all(struct inmd *d)
{
    enum inm_network network, before;
    struct inm_found found, old;

    if (!found_init(d->topo, &found)) {
        inm_log(LOG_ERR, "no memory for a discovery");
        return NETWORK_GONE;
    }
    network = discover(d->net, d->topo, &found);
    found.when = time(NULL);
    pthread_mutex_lock(&d->lock);
    before = d->network;
    old = d->found;
    d->found = found;
    d->network = network;
    if (network == NETWORK_OK) {
        status_from_found(d);
    }
    d->dirty = true;
    log_discovery(d, network, before, &old);
    inmd_touch(d);
    pthread_mutex_unlock(&d->lock);
    found_free(&old);
    return network;
}

const char *network_text(enum inm_network network)
{
    return network_names[network];
}

/* ---- polls ----------------------------------------------------------------------------------- */

/* A counter that has become smaller began again. */
static uint64_t difference(uint64_t now, uint64_t before)
{
    return now >= before ? now - before : now;
}

static void poll_take(struct inmd *d, const struct many *m)
{
    uint32_t i, p;

    for (i = 0; i + 1 < m->num; i += 2) {
        const struct net_req *links = &m->reqs[i], *heat = &m->reqs[i + 1];
        uint32_t chip = m->chips[i];

        if (heat->outcome == NET_OK) {
            d->status.crc_delta[chip] = difference(heat->reg[1], d->status.crc_errors[chip]);
            d->status.crc_errors[chip] = heat->reg[1];
            d->status.temperature[chip] = (int32_t)(int64_t)heat->reg[0];
            d->status.hot[chip] =
                d->status.temperature[chip] >
                (int32_t)d->config.hot_limit * 1000 - (d->status.hot[chip] ? 2000 : 0);
        }
        if (chip < d->topo->num_nrc) {
            /* A route that is about to be found again may be the reason for no answer. */
            d->status.mute[chip] = links->outcome == NET_NO_ANSWER &&
                                   heat->outcome == NET_NO_ANSWER &&
                                   (d->rediscover == 0 || d->status.mute[chip]);
            if (!d->status.mute[chip] && !d->found.answers[chip] && d->rediscover == 0) {
                d->rediscover = now_seconds(); /* the chip did not answer before: find its links */
            }
        }
        if (links->outcome != NET_OK) {
            continue;
        }
        d->status.retry_delta[chip] = difference(links->reg[1], d->status.retries[chip]);
        d->status.retries[chip] = links->reg[1];
        for (p = 0; p < inm_chip_ports(d->topo, chip) && chip < d->topo->num_nrc; p++) {
            uint32_t port = inm_topo_port(d->topo, chip, p);
            bool down = d->topo->peer[port] != INM_NONE && (links->reg[0] >> p & 1) == 0;

            if (down != (bool)d->status.down[port] && d->rediscover == 0) {
                d->rediscover = now_seconds() + 0.5;
            }
            d->status.down[port] = down;
        }
    }
    d->dirty = true;
}

uint32_t poll_chips(struct inmd *d)
{
    double begin = now_seconds();
    uint32_t chip, failed;
    struct many m;

    if (!many_init(d, &m, 2)) {
        return 0;
    }
    pthread_mutex_lock(&d->lock);
    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        struct net_req *req;

        if (!d->found.seen[chip] ||
            !in_region(d, chip, d->config.first_cabinet, d->config.last_cabinet)) {
            continue;
        }
        req = many_add(d, &m, chip, GLEX_MGMT_REG_READ_REQ);
        req->count = 2;
        req->addr[0] = REG_LINKS_UP;
        req->addr[1] = REG_RETRIES;
        req = many_add(d, &m, chip, GLEX_MGMT_REG_READ_REQ);
        req->count = 2;
        req->addr[0] = REG_TEMPERATURE;
        req->addr[1] = REG_CRC_ERRORS;
    }
    pthread_mutex_unlock(&d->lock);
    failed = net_run(d->net, m.reqs, m.num);
    pthread_mutex_lock(&d->lock);
    poll_take(d, &m);
    d->polls++;
    d->poll_seconds = now_seconds() - begin;
    inmd_touch(d);
    pthread_mutex_unlock(&d->lock);
    many_free(&m);
    return failed;
}
