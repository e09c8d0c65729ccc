/* Operations on chips: registers, EEPROM, configuration, polls and scans. */
#include "inmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events that a chip shall report. */
#define EVENTS_WANTED (1ull << NMP_EVENT_LINK_DOWN | 1ull << NMP_EVENT_LINK_UP | \
                       1ull << NMP_EVENT_RETRY | 1ull << NMP_EVENT_HOT | 1ull << NMP_EVENT_COOL | \
                       1ull << NMP_EVENT_WIDTH)

const char *outcome_text(int outcome)
{
    return outcome == NET_NO_ANSWER || outcome == NET_PENDING ? "no answer"
                                                              : nmp_status_name((unsigned)outcome);
}

bool request_for(struct inmd *d, uint32_t chip, unsigned type, struct net_req *req,
                 struct inm_route *route)
{
    bool ok;

    pthread_mutex_lock(&d->lock);
    ok = chip < inm_topo_chips(d->topo) && d->found.seen != NULL && d->found.seen[chip];
    if (ok) {
        *route = d->found.route[chip];
    }
    pthread_mutex_unlock(&d->lock);
    *req = (struct net_req){.type = (uint8_t)type, .count = 1, .outcome = NET_NO_ANSWER,
                            .chip = ok ? d->topo->chips[chip].type : GLEX_MGMT_CHIP_NRC,
                            .id = ok ? inm_chip_id(d->topo, chip) : 0,
                            .forward = &route->forward, .backward = &route->backward};
    return ok;
}

int chip_read(struct inmd *d, uint32_t chip, uint32_t addr, uint64_t *value)
{
    struct inm_route route;
    struct net_req req;

    if (addr > UINT16_MAX) {
        return NMP_BAD_ADDRESS;
    }
    if (!request_for(d, chip, GLEX_MGMT_REG_READ_REQ, &req, &route)) {
        return NET_NO_ANSWER;
    }
    req.addr[0] = (uint16_t)addr;
    net_run(d->net, &req, 1);
    *value = req.reg[0];
    return req.outcome;
}

int chip_write(struct inmd *d, uint32_t chip, uint32_t addr, uint64_t value)
{
    struct inm_route route;
    struct net_req req;

    if (addr > UINT16_MAX) {
        return NMP_BAD_ADDRESS;
    }
    if (!request_for(d, chip, GLEX_MGMT_REG_WRITE_REQ, &req, &route)) {
        return NET_NO_ANSWER;
    }
    req.addr[0] = (uint16_t)addr;
    req.reg[0] = value;
    net_run(d->net, &req, 1);
    return req.outcome;
}

/* Six bytes a request. */
static int eeprom(struct inmd *d, uint32_t chip, unsigned type, uint32_t addr, uint32_t num,
                  const uint8_t *in, uint8_t *out)
{
    uint32_t reqs_num = (num + GLEX_MGMT_MAX_BYTES - 1) / GLEX_MGMT_MAX_BYTES, i, k;
    struct inm_route route;
    struct net_req *reqs, first;
    int outcome = NET_OK;

    if (num == 0 || addr >= INM_EEPROM_BYTES || num > INM_EEPROM_BYTES - addr) {
        return NMP_BAD_ADDRESS;
    }
    if (!request_for(d, chip, type, &first, &route)) {
        return NET_NO_ANSWER;
    }
    reqs = calloc(reqs_num, sizeof(*reqs));
    if (reqs == NULL) {
        return NET_NO_ANSWER;
    }
    for (i = 0; i < reqs_num; i++) {
        uint32_t left = num - i * GLEX_MGMT_MAX_BYTES;

        reqs[i] = first;
        reqs[i].count = (uint8_t)(left < GLEX_MGMT_MAX_BYTES ? left : GLEX_MGMT_MAX_BYTES);
        for (k = 0; k < reqs[i].count; k++) {
            reqs[i].addr[k] = (uint16_t)(addr + i * GLEX_MGMT_MAX_BYTES + k);
            reqs[i].byte[k] = in != NULL ? in[i * GLEX_MGMT_MAX_BYTES + k] : 0;
        }
    }
    net_run(d->net, reqs, reqs_num);
    for (i = 0; i < reqs_num && outcome == NET_OK; i++) {
        outcome = reqs[i].outcome;
        if (out != NULL && outcome == NET_OK) {
            memcpy(out + i * GLEX_MGMT_MAX_BYTES, reqs[i].byte, reqs[i].count);
        }
    }
    free(reqs);
    return outcome;
}

int chip_eeprom_read(struct inmd *d, uint32_t chip, uint32_t addr, uint32_t num, uint8_t *bytes)
{
    return eeprom(d, chip, GLEX_MGMT_EEP_READ_REQ, addr, num, NULL, bytes);
}

int chip_eeprom_write(struct inmd *d, uint32_t chip, uint32_t addr, uint32_t num,
                      const uint8_t *bytes)
{
    return eeprom(d, chip, GLEX_MGMT_EEP_WRITE_REQ, addr, num, bytes, NULL);
}

/* ---- many chips ------------------------------------------------------------------------------ */

/* A list of requests with room for `per_chip` to each chip; routes are copies. */
struct many {
    struct net_req *reqs;
    struct inm_route *routes;
    uint32_t *chips; /* by request */
    uint32_t num;
};

static void many_free(struct many *m)
{
    free(m->reqs);
    free(m->routes);
    free(m->chips);
}

static bool many_init(struct inmd *d, struct many *m, uint32_t per_chip)
{
    uint32_t chips = inm_topo_chips(d->topo);

    m->num = 0;
    m->reqs = malloc((size_t)chips * per_chip * sizeof(*m->reqs));
    m->chips = malloc((size_t)chips * per_chip * sizeof(*m->chips));
    m->routes = malloc(chips * sizeof(*m->routes));
    if (m->reqs == NULL || m->chips == NULL || m->routes == NULL) {
        many_free(m);
        return false;
    }
    pthread_mutex_lock(&d->lock);
    memcpy(m->routes, d->found.route, chips * sizeof(*m->routes));
    pthread_mutex_unlock(&d->lock);
    return true;
}

static struct net_req *many_add(struct inmd *d, struct many *m, uint32_t chip, unsigned type)
{
    struct net_req *req = &m->reqs[m->num];

    *req = (struct net_req){.type = (uint8_t)type, .count = 1, .chip = d->topo->chips[chip].type,
                            .id = inm_chip_id(d->topo, chip), .forward = &m->routes[chip].forward,
                            .backward = &m->routes[chip].backward};
    m->chips[m->num++] = chip;
    return req;
}

static bool reachable(const struct inmd *d, uint32_t chip)
{
    return d->found.seen[chip] && (chip >= d->topo->num_nrc || d->found.answers[chip]);
}

/* What a chip's configuration registers shall be. */
static void wanted_config(const struct inmd *d, const struct inm_route *route, uint8_t vp,
                          uint64_t reg[4])
{
    uint8_t buf[16] = {0};
    struct nmp_route back;

    memcpy(&back, &route->backward, sizeof(back));
    nmp_put_route(buf, 0, &back);
    reg[0] = nmp_get_bits(buf, 0, 64);
    reg[1] = nmp_get_bits(buf, 64, 41) | (uint64_t)vp << 48;
    reg[2] = EVENTS_WANTED;
    reg[3] = (uint64_t)d->config.hot_limit * 1000;
}

static const uint16_t config_addr[4] = {REG_REPORT_ROUTE0, REG_REPORT_ROUTE1, REG_REPORT_ENABLE,
                                        REG_HOT_LIMIT};

static void list_config(struct inmd *d, struct many *m, uint32_t first, uint32_t last, bool read)
{
    uint8_t vp = net_vp(d->net);
    uint32_t chip, i, k;
    uint64_t reg[4];

    for (chip = 0; chip < inm_topo_chips(d->topo); chip++) {
        uint32_t cabinet = inm_chip_cabinet(d->topo, chip);

        if (!reachable(d, chip) || cabinet < first || cabinet > last) {
            continue;
        }
        wanted_config(d, &m->routes[chip], vp, reg);
        for (i = 0; i < 4; i += 2) {
            struct net_req *req = many_add(d, m, chip, read ? GLEX_MGMT_REG_READ_REQ
                                                            : GLEX_MGMT_REG_WRITE_REQ);

            req->count = 2;
            for (k = 0; k < 2; k++) {
                req->addr[k] = config_addr[i + k];
                req->reg[k] = read ? 0 : reg[i + k];
            }
        }
    }
}

/* Every port reports when its retries have risen by the limit. */
static void push_retry_limits(struct inmd *d, uint32_t first, uint32_t last)
{
    struct many m;
    uint32_t chip, i;

    if (!many_init(d, &m, INM_NRC_PORTS / 2)) {
        return;
    }
    pthread_mutex_lock(&d->lock);
    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        uint32_t cabinet = inm_chip_cabinet(d->topo, chip);

        for (i = 0; i < INM_NRC_PORTS && reachable(d, chip) && cabinet >= first && cabinet <= last;
             i += 2) {
            struct net_req *req = many_add(d, &m, chip, GLEX_MGMT_REG_WRITE_REQ);

            req->count = 2;
            req->addr[0] = (uint16_t)(REG_PORT(i) + PORT_RETRY_LIMIT);
            req->addr[1] = (uint16_t)(REG_PORT(i + 1) + PORT_RETRY_LIMIT);
            req->reg[0] = req->reg[1] = d->config.retry_limit;
        }
    }
    pthread_mutex_unlock(&d->lock);
    net_run(d->net, m.reqs, m.num);
    many_free(&m);
}

uint32_t push_config(struct inmd *d, uint32_t first, uint32_t last)
{
    uint32_t failed;
    struct many m;

    if (!many_init(d, &m, 2)) {
        return 0;
    }
    pthread_mutex_lock(&d->lock);
    list_config(d, &m, first, last, false);
    pthread_mutex_unlock(&d->lock);
    failed = net_run(d->net, m.reqs, m.num);
    if (failed != 0) {
        inm_log(LOG_WARNING, "%u of %u configuration requests failed", failed, m.num);
    }
    many_free(&m);
    push_retry_limits(d, first, last);
    return failed;
}

uint32_t check_config(struct inmd *d, uint32_t first, uint32_t last)
{
    uint32_t differ = 0, i, k;
    uint64_t reg[4];
    struct many m;

    if (!many_init(d, &m, 2)) {
        return 0;
    }
    pthread_mutex_lock(&d->lock);
    list_config(d, &m, first, last, true);
    pthread_mutex_unlock(&d->lock);
    net_run(d->net, m.reqs, m.num);
    for (i = 0; i < m.num; i++) {
        wanted_config(d, &m.routes[m.chips[i]], net_vp(d->net), reg);
        k = i % 2 * 2;
        differ += m.reqs[i].outcome != NET_OK || m.reqs[i].reg[0] != reg[k] ||
                  m.reqs[i].reg[1] != reg[k + 1];
    }
    many_free(&m);
    return differ;
}

/* ---- polls ----------------------------------------------------------------------------------- */

static void poll_take(struct inmd *d, const struct many *m)
{
    uint32_t i, p;

    for (i = 0; i + 1 < m->num; i += 2) {
        const struct net_req *links = &m->reqs[i], *heat = &m->reqs[i + 1];
        uint32_t chip = m->chips[i];

        if (heat->outcome == NET_OK) {
            d->status.temperature[chip] = (int32_t)(int64_t)heat->reg[0];
            d->status.hot[chip] = d->status.temperature[chip] >
                                  (int32_t)d->config.hot_limit * 1000 - (d->status.hot[chip] ? 2000
                                                                                             : 0);
        }
        if (chip < d->topo->num_nrc) {
            d->status.mute[chip] = links->outcome == NET_NO_ANSWER &&
                                   heat->outcome == NET_NO_ANSWER;
            if (!d->status.mute[chip] && !d->found.answers[chip] && d->rediscover == 0) {
                d->rediscover = now_seconds(); /* it did not answer before: learn its links */
            }
        }
        if (links->outcome != NET_OK) {
            continue;
        }
        d->status.retry_delta[chip] = links->reg[1] - d->status.retries[chip];
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
        uint32_t cabinet = inm_chip_cabinet(d->topo, chip);
        struct net_req *req;

        if (!d->found.seen[chip] || cabinet < d->config.first_cabinet ||
            cabinet > d->config.last_cabinet) {
            continue;
        }
        req = many_add(d, &m, chip, GLEX_MGMT_REG_READ_REQ);
        req->count = 2;
        req->addr[0] = REG_LINKS_UP;
        req->addr[1] = REG_RETRIES;
        req = many_add(d, &m, chip, GLEX_MGMT_REG_READ_REQ);
        req->addr[0] = REG_TEMPERATURE;
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

/* ---- the scan of the paper, section 4.5 ------------------------------------------------------ */

void full_scan(struct inmd *d, uint32_t per_chip, struct scan_result *r)
{
    uint64_t begin_ns = net_time(d->net), hops = 0, chips = 0;
    double begin = now_seconds();
    struct many m;
    uint32_t chip, i;

    memset(r, 0, sizeof(*r));
    if (!many_init(d, &m, 1)) {
        return;
    }
    for (i = 0; i < per_chip; i++) {
        m.num = 0;
        pthread_mutex_lock(&d->lock);
        for (chip = 0; chip < d->topo->num_nrc; chip++) {
            if (reachable(d, chip)) {
                many_add(d, &m, chip, GLEX_MGMT_REG_READ_REQ)->addr[0] =
                    (uint16_t)(REG_PORT(i * INM_NRC_PORTS / per_chip) + i % 8);
                hops += i == 0 ? d->found.hop[chip] : 0;
                chips += i == 0;
            }
        }
        pthread_mutex_unlock(&d->lock);
        r->failed += net_run(d->net, m.reqs, m.num);
        r->requests += m.num;
    }
    many_free(&m);
    r->real_seconds = now_seconds() - begin;
    r->modelled_ns = net_time(d->net) - begin_ns;
    /* Formula 1 of the paper, with its rounded constants: 7.40 us a request and 0.88 us a hop. */
    r->formula_seconds = per_chip * ((double)chips * 7.40e-6 + (double)(hops + chips) * 0.88e-6);
    /* A request and its response: 8 flits of 198 bits. A link carries 224 Gb/s, both ways. */
    r->bits = r->requests * 2 * 4 * 198;
    /* The paper counts in units of 2^30 bits: 1.0367 of them in a scan of TH-2. */
    r->link_share = r->formula_seconds > 0
                        ? (double)r->bits / 1073741824.0 / r->formula_seconds / 224 : 0;
}
