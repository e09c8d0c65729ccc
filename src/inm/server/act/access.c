/* Registers and EEPROM of single chips, and lists of requests to many. */
#include "access.h"

#include <stdlib.h>
#include <string.h>

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
    *req = (struct net_req){.type = (uint8_t)type,
                            .count = 1,
                            .outcome = NET_NO_ANSWER,
                            .chip = ok ? d->topo->chips[chip].type : GLEX_MGMT_CHIP_NRC,
                            .id = ok ? inm_chip_id(d->topo, chip) : 0,
                            .forward = &route->forward,
                            .backward = &route->backward};
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

void many_free(struct many *m)
{
    free(m->reqs);
    free(m->routes);
    free(m->chips);
}

bool many_init(struct inmd *d, struct many *m, uint32_t per_chip)
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

struct net_req *many_add(struct inmd *d, struct many *m, uint32_t chip, unsigned type)
{
    struct net_req *req = &m->reqs[m->num];

    *req = (struct net_req){.type = (uint8_t)type,
                            .count = 1,
                            .chip = d->topo->chips[chip].type,
                            .id = inm_chip_id(d->topo, chip),
                            .forward = &m->routes[chip].forward,
                            .backward = &m->routes[chip].backward};
    m->chips[m->num++] = chip;
    return req;
}

bool reachable(const struct inmd *d, uint32_t chip)
{
    return d->found.seen[chip] && (chip >= d->topo->num_nrc || d->found.answers[chip]);
}

bool in_region(const struct inmd *d, uint32_t chip, uint32_t first_cabinet, uint32_t last_cabinet)
{
    uint32_t cabinet = inm_chip_cabinet(d->topo, chip);

    return cabinet >= first_cabinet && cabinet <= last_cabinet;
}
