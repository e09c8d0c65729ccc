/*
 * Discovery: breadth-first search over the network with source routes that are built on the way
 * (paper, section 4.4).
 *
 * The search begins at this host's NIC, whose neighbour register names the first NRC and the port
 * that leads back. Each NRC is asked for its 12 neighbour registers by 6 requests. All NRCs of the
 * same distance are asked at once; their answers are worked through in a fixed order.
 */
#include "discover.h"
#include "base.h"
#include "common/nmp.h"

#include <stdlib.h>
#include <string.h>

#define REQS_A_CHIP 6

bool found_init(const struct inm_topo *topo, struct inm_found *found)
{
    uint32_t chips = inm_topo_chips(topo), ports = inm_topo_ports(topo), i;

    memset(found, 0, sizeof(*found));
    found->seen = calloc(chips, 1);
    found->answers = calloc(chips, 1);
    found->hop = calloc(chips, 1);
    found->peer = malloc(ports * sizeof(*found->peer));
    found->route = calloc(chips, sizeof(*found->route));
    if (found->seen == NULL || found->answers == NULL || found->hop == NULL ||
        found->peer == NULL || found->route == NULL) {
        found_free(found);
        return false;
    }
    for (i = 0; i < ports; i++) {
        found->peer[i] = INM_NONE;
    }
    return true;
}

void found_free(struct inm_found *found)
{
    free(found->seen);
    free(found->answers);
    free(found->hop);
    free(found->peer);
    free(found->route);
    memset(found, 0, sizeof(*found));
}

struct search {
    struct net *net;
    const struct inm_topo *topo;
    struct inm_found *found;
    struct net_req *reqs;
    uint32_t *level, *next; /* chips of this distance, and of the next */
    uint32_t num, num_next;
    uint32_t *unknown; /* ids that the topology does not have, each once */
};

static bool append_hop(const struct glex_mgmt_route *route, uint8_t port,
                       struct glex_mgmt_route *out)
{
    *out = *route;
    if (out->num >= GLEX_MGMT_MAX_HOPS) {
        return false;
    }
    out->port[out->num++] = port;
    return true;
}

static bool prepend_hop(const struct glex_mgmt_route *route, uint8_t port,
                        struct glex_mgmt_route *out)
{
    if (route->num >= GLEX_MGMT_MAX_HOPS) {
        return false;
    }
    out->num = (uint8_t)(route->num + 1);
    out->port[0] = port;
    memcpy(out->port + 1, route->port, route->num);
    return true;
}

/* Enters a neighbour that was not seen before: its route, and its place in the queue. */
static void reach(struct search *s, uint32_t from, uint32_t from_port, uint32_t chip,
                  uint32_t chip_port)
{
    struct inm_found *f = s->found;
    const struct inm_route *way = &f->route[from];
    bool nrc = chip < s->topo->num_nrc;

    if (f->seen[chip] || !append_hop(&way->forward, (uint8_t)from_port, &f->route[chip].forward)) {
        return;
    }
    /* The route back from a NIC, which has one port, begins with the port of the NRC. */
    if (nrc) {
        if (!prepend_hop(&way->backward, (uint8_t)chip_port, &f->route[chip].backward)) {
            return;
        }
        s->next[s->num_next++] = chip;
        f->num_nrc++;
    } else {
        f->route[chip].backward = way->backward;
        f->num_nic++;
    }
    f->seen[chip] = 1;
    f->hop[chip] = (uint8_t)(f->hop[from] + 1);
}

/* Records the neighbour of a port of an NRC. */
static void learn(struct search *s, uint32_t chip, uint32_t index, uint32_t entry)
{
    uint32_t port = inm_topo_port(s->topo, chip, index), peer_index = REG_NB_PORT(entry), peer;

    if ((entry & REG_NB_UP) == 0) {
        return;
    }
    peer = inm_topo_find(s->topo, REG_NB_TYPE(entry), entry & REG_NB_ID_MASK);
    if (peer == INM_NONE || peer_index >= inm_chip_ports(s->topo, peer)) {
        s->found->num_unknown++;
        return;
    }
    s->found->peer[port] = inm_topo_port(s->topo, peer, peer_index);
    if (peer >= s->topo->num_nrc) {
        s->found->peer[inm_topo_port(s->topo, peer, 0)] = port;
    }
    reach(s, chip, index, peer, peer_index);
}

static void ask(struct search *s)
{
    uint32_t i, k;

    for (i = 0; i < s->num; i++) {
        const struct inm_route *way = &s->found->route[s->level[i]];

        for (k = 0; k < REQS_A_CHIP; k++) {
            s->reqs[i * REQS_A_CHIP + k] =
                (struct net_req){.type = GLEX_MGMT_REG_READ_REQ,
                                 .chip = GLEX_MGMT_CHIP_NRC,
                                 .id = s->level[i],
                                 .count = 2,
                                 .forward = &way->forward,
                                 .backward = &way->backward,
                                 .addr = {(uint16_t)(REG_NEIGHBOUR0 + 2 * k),
                                          (uint16_t)(REG_NEIGHBOUR0 + 2 * k + 1)}};
        }
    }
    net_run(s->net, s->reqs, s->num * REQS_A_CHIP);
}

static void work_through(struct search *s)
{
    uint32_t i, k, r;

    for (i = 0; i < s->num; i++) {
        bool all = true;

        for (k = 0; k < REQS_A_CHIP; k++) {
            const struct net_req *req = &s->reqs[i * REQS_A_CHIP + k];

            all = all && req->outcome == NET_OK;
            for (r = 0; r < 2 && req->outcome == NET_OK; r++) {
                learn(s, s->level[i], 4 * k + 2 * r, (uint32_t)req->reg[r]);
                learn(s, s->level[i], 4 * k + 2 * r + 1, (uint32_t)(req->reg[r] >> 32));
            }
        }
        s->found->answers[s->level[i]] = all;
    }
}

/* Reads from this host's NIC which router it is wired to. */
static enum inm_network ask_own_nic(struct search *s)
{
    static const struct glex_mgmt_route none;
    struct net_req req = {.type = GLEX_MGMT_REG_READ_REQ,
                          .chip = GLEX_MGMT_CHIP_NIC,
                          .count = 2,
                          .id = GLEX_MGMT_ANY_ID,
                          .forward = &none,
                          .backward = &none,
                          .addr = {REG_ID, REG_NEIGHBOUR0}};
    struct inm_found *f = s->found;
    uint32_t nic, nrc, entry;

    if (net_run(s->net, &req, 1) != 0) {
        return NETWORK_GONE;
    }
    entry = (uint32_t)req.reg[1];
    nic = inm_topo_find(s->topo, NMP_CHIP_NIC, (uint32_t)req.reg[0] & REG_NB_ID_MASK);
    if (nic == INM_NONE) {
        return NETWORK_WRONG_TOPOLOGY;
    }
    f->seen[nic] = f->answers[nic] = 1;
    f->num_nic = 1;
    if ((entry & REG_NB_UP) == 0) {
        return NETWORK_NO_LINK;
    }
    nrc = inm_topo_find(s->topo, REG_NB_TYPE(entry), entry & REG_NB_ID_MASK);
    if (nrc == INM_NONE || nrc >= s->topo->num_nrc || REG_NB_PORT(entry) >= INM_NRC_PORTS) {
        return NETWORK_WRONG_TOPOLOGY;
    }
    f->num_nrc = 1;
    f->peer[inm_topo_port(s->topo, nic, 0)] = inm_topo_port(s->topo, nrc, REG_NB_PORT(entry));
    f->seen[nrc] = 1;
    f->route[nrc].backward =
        (struct glex_mgmt_route){.num = 1, .port = {(uint8_t)REG_NB_PORT(entry)}};
    s->level[s->num++] = nrc;
    return NETWORK_OK;
}

static void count_links(struct search *s)
{
    struct inm_found *f = s->found;
    uint32_t port;

    for (port = 0; port < inm_topo_ports(s->topo); port++) {
        uint32_t found = f->peer[port], expected = s->topo->peer[port];

        f->num_links += found != INM_NONE && port < found;
        f->num_differ += found != INM_NONE && port < found && found != expected;
        f->num_missing += expected != INM_NONE && port < expected && found != expected &&
                          f->peer[expected] != port;
    }
}

enum inm_network discover(struct net *net, const struct inm_topo *topo, struct inm_found *found)
{
    struct search s = {.net = net, .topo = topo, .found = found};
    struct net_stats before, after;
    uint64_t modelled = net_time(net);
    double begin = now_seconds();
    uint32_t *swap;
    enum inm_network network = NETWORK_GONE;

    net_get_stats(net, &before);
    s.level = malloc(topo->num_nrc * sizeof(*s.level));
    s.next = malloc(topo->num_nrc * sizeof(*s.next));
    s.reqs = malloc((size_t)topo->num_nrc * REQS_A_CHIP * sizeof(*s.reqs));
    if (s.level == NULL || s.next == NULL || s.reqs == NULL) {
        goto out;
    }
    network = ask_own_nic(&s);
    if (network != NETWORK_OK) {
        goto out;
    }
    while (s.num > 0) {
        ask(&s);
        s.num_next = 0;
        work_through(&s);
        swap = s.level;
        s.level = s.next;
        s.next = swap;
        s.num = s.num_next;
    }
    count_links(&s);
    net_get_stats(net, &after);
    found->requests = after.requests - before.requests;
    found->modelled_ns = net_time(net) - modelled;
    found->real_seconds = now_seconds() - begin;
    found->when = time(NULL);
    /* Most links elsewhere than expected: the topology is that of another network. */
    if (found->num_differ * 2 > found->num_links) {
        network = NETWORK_WRONG_TOPOLOGY;
    }
out:
    free(s.level);
    free(s.next);
    free(s.reqs);
    return network;
}
