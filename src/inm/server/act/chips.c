/* Configuration of all chips, and the full scan; see chips.h. */
#include "chips.h"
#include "access.h"

#include <string.h>

/* Events that a chip shall report. */
#define EVENTS_WANTED                                                                              \
    (1ull << NMP_EVENT_LINK_DOWN | 1ull << NMP_EVENT_LINK_UP | 1ull << NMP_EVENT_RETRY |           \
     1ull << NMP_EVENT_HOT | 1ull << NMP_EVENT_COOL | 1ull << NMP_EVENT_WIDTH)

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
        if (!reachable(d, chip) || !in_region(d, chip, first, last)) {
            continue;
        }
        wanted_config(d, &m->routes[chip], vp, reg);
        for (i = 0; i < 4; i += 2) {
            struct net_req *req =
                many_add(d, m, chip, read ? GLEX_MGMT_REG_READ_REQ : GLEX_MGMT_REG_WRITE_REQ);

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
        for (i = 0; i < INM_NRC_PORTS && reachable(d, chip) && in_region(d, chip, first, last);
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
    for (i = 0; i < per_chip && !d->stop; i++) {
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
    /* A request and its response: 8 flits of 198 bits. A link carries 224 Gb/s in each
     * direction. */
    r->bits = r->requests * 2 * 4 * 198;
    /* The paper counts in units of 2^30 bits: 1.0367 of them in a scan of TH-2. */
    r->link_share =
        r->formula_seconds > 0 ? (double)r->bits / 1073741824.0 / r->formula_seconds / 224 : 0;
}
