/*
 * Built-in self test of links, in rounds that never cut the management paths.
 *
 * A link under test carries no packets. In each round the server needs a spanning tree of NRCs
 * whose links are not tested; all others may be. The tree of the next round avoids links that are
 * still to be tested, where it can. A link that every tree needs (a bridge) is not tested. The link
 * of a NIC is in no tree: its NRC runs the test, and the NIC is away meanwhile; but never that of
 * this host's own NIC.
 */
#include "bist.h"
#include "access.h"

#include <stdlib.h>
#include <string.h>

struct tree {
    const struct inm_topo *topo;
    const uint32_t *peer;
    uint8_t *in_tree; /* by port, both ends */
    uint8_t *seen;    /* by NRC */
    uint32_t *queue;
};

static void enter(struct tree *t, uint32_t port, uint32_t *tail)
{
    uint32_t peer = t->peer[port];

    t->in_tree[port] = t->in_tree[peer] = 1;
    t->seen[peer / INM_NRC_PORTS] = 1;
    t->queue[(*tail)++] = peer / INM_NRC_PORTS;
}

/* Over the links that `avoid` does not mark (or all), from all that is seen. */
static void grow(struct tree *t, const uint8_t *avoid, uint32_t *tail)
{
    uint32_t head, i;

    for (head = 0; head < *tail; head++) {
        for (i = 0; i < INM_NRC_PORTS; i++) {
            uint32_t port = t->queue[head] * INM_NRC_PORTS + i, peer = t->peer[port];

            if (peer < t->topo->num_nrc * INM_NRC_PORTS && !t->seen[peer / INM_NRC_PORTS] &&
                (avoid == NULL || (!avoid[port] && !avoid[peer]))) {
                enter(t, port, tail);
            }
        }
    }
}

/* Takes a step over a link that is still to be tested. @return false: no such link is left. */
static bool grow_once(struct tree *t, uint32_t *tail)
{
    uint32_t k, i;

    for (k = 0; k < *tail; k++) {
        for (i = 0; i < INM_NRC_PORTS; i++) {
            uint32_t port = t->queue[k] * INM_NRC_PORTS + i, peer = t->peer[port];

            if (peer < t->topo->num_nrc * INM_NRC_PORTS && !t->seen[peer / INM_NRC_PORTS]) {
                enter(t, port, tail);
                return true;
            }
        }
    }
    return false;
}

static void make_tree(struct tree *t, uint32_t root, const uint8_t *avoid)
{
    uint32_t tail = 1;

    memset(t->in_tree, 0, inm_topo_ports(t->topo));
    memset(t->seen, 0, t->topo->num_nrc);
    t->seen[root] = 1;
    t->queue[0] = root;
    do {
        grow(t, avoid, &tail);
    } while (grow_once(t, &tail));
}

uint32_t bist_plan(const struct inm_topo *topo, const uint32_t *peer, uint32_t server,
                   const uint8_t *want, uint8_t *round)
{
    uint32_t ports = inm_topo_ports(topo), rounds = 0, port, done, left = 0;
    struct tree t = {.topo = topo,
                     .peer = peer,
                     .in_tree = malloc(ports),
                     .seen = malloc(topo->num_nrc),
                     .queue = malloc(topo->num_nrc * sizeof(uint32_t))};
    uint8_t *todo = calloc(ports, 1);
    uint32_t own = inm_topo_port(topo, server, 0);

    memset(round, 0, ports);
    if (t.in_tree == NULL || t.seen == NULL || t.queue == NULL || todo == NULL ||
        peer[own] == INM_NONE) {
        goto out;
    }
    for (port = 0; port < ports; port++) {
        if (peer[port] != INM_NONE && (want[port] || want[peer[port]])) {
            todo[port] = 1;
            left++;
        }
    }
    if (todo[own]) {
        todo[own] = todo[peer[own]] = 0;
        round[own] = round[peer[own]] = BIST_NEVER;
        left -= 2;
    }
    for (done = 1; left > 0 && done > 0 && rounds < BIST_NEVER - 1;) {
        make_tree(&t, peer[own] / INM_NRC_PORTS, todo);
        done = 0;
        for (port = 0; port < ports; port++) {
            if (todo[port] && !t.in_tree[port]) {
                todo[port] = 0;
                round[port] = (uint8_t)(rounds + 1);
                done++;
            }
        }
        left -= done;
        rounds += done > 0;
    }
    for (port = 0; port < ports; port++) {
        round[port] = todo[port] ? BIST_NEVER : round[port];
    }
out:
    free(t.in_tree);
    free(t.seen);
    free(t.queue);
    free(todo);
    return rounds;
}

/* ---- running it ------------------------------------------------------------------------------ */

struct run {
    struct inmd *d;
    uint32_t *peer;
    uint8_t *round;
    uint32_t us;
    struct inm_route *routes; /* of this round: ways that avoid the links under test */
    struct net_req *reqs;
    uint32_t *ports; /* by request */
    uint32_t num;
};

/* Source routes over the links that are not in this round, breadth first. */
static void round_routes(struct run *r, uint8_t round, uint32_t *queue, uint8_t *seen)
{
    const struct inm_topo *topo = r->d->topo;
    uint32_t head = 0, tail = 0, i, first;

    memset(seen, 0, topo->num_nrc);
    first = r->peer[inm_topo_port(topo, topo->server, 0)];
    r->routes[first / INM_NRC_PORTS] =
        (struct inm_route){.backward = {.num = 1, .port = {(uint8_t)(first % INM_NRC_PORTS)}}};
    seen[first / INM_NRC_PORTS] = 1;
    queue[tail++] = first / INM_NRC_PORTS;
    while (head < tail) {
        uint32_t chip = queue[head++];

        for (i = 0; i < INM_NRC_PORTS; i++) {
            uint32_t port = chip * INM_NRC_PORTS + i, peer = r->peer[port], to;
            struct inm_route *way;

            if (peer >= topo->num_nrc * INM_NRC_PORTS || r->round[port] == round ||
                seen[peer / INM_NRC_PORTS] || r->routes[chip].forward.num >= GLEX_MGMT_MAX_HOPS ||
                r->routes[chip].backward.num >= GLEX_MGMT_MAX_HOPS) {
                continue;
            }
            to = peer / INM_NRC_PORTS;
            way = &r->routes[to];
            *way = r->routes[chip];
            way->forward.port[way->forward.num++] = (uint8_t)i;
            memmove(way->backward.port + 1, way->backward.port, way->backward.num);
            way->backward.port[0] = (uint8_t)(peer % INM_NRC_PORTS);
            way->backward.num++;
            seen[to] = 1;
            queue[tail++] = to;
        }
    }
}

/* One request to each end of the links of a round that is at an NRC. */
static void list_round(struct run *r, uint8_t round, const uint8_t *seen, unsigned type,
                       uint16_t reg, uint64_t value)
{
    uint32_t port, chip;

    r->num = 0;
    for (port = 0; port < r->d->topo->num_nrc * INM_NRC_PORTS; port++) {
        chip = port / INM_NRC_PORTS;
        /* A link is tested from one end; that of a NIC from its NRC. */
        if (r->round[port] != round || r->peer[port] < port || !seen[chip]) {
            continue;
        }
        r->ports[r->num] = port;
        r->reqs[r->num] = (struct net_req){.type = (uint8_t)type,
                                           .chip = GLEX_MGMT_CHIP_NRC,
                                           .id = chip,
                                           .count = 1,
                                           .forward = &r->routes[chip].forward,
                                           .backward = &r->routes[chip].backward};
        r->reqs[r->num].addr[0] = (uint16_t)(REG_PORT(port % INM_NRC_PORTS) + reg);
        if (reg == PORT_BIST_BITS) {
            r->reqs[r->num].count = 2;
            r->reqs[r->num].addr[1] = (uint16_t)(r->reqs[r->num].addr[0] + 1);
        }
        r->reqs[r->num++].reg[0] = value;
    }
}

static void run_round(struct run *r, uint8_t round, uint32_t *queue, uint8_t *seen,
                      struct bist_result *result)
{
    uint32_t i;

    round_routes(r, round, queue, seen);
    list_round(r, round, seen, GLEX_MGMT_REG_WRITE_REQ, PORT_BIST_CONTROL,
               (uint64_t)r->us << 32 | BIST_START);
    result->failed += net_run(r->d->net, r->reqs, r->num);
    net_wait(r->d->net, r->us + 2000);
    list_round(r, round, seen, GLEX_MGMT_REG_READ_REQ, PORT_BIST_BITS, 0);
    net_run(r->d->net, r->reqs, r->num);
    pthread_mutex_lock(&r->d->lock);
    for (i = 0; i < r->num; i++) {
        if (r->reqs[i].outcome != NET_OK || r->reqs[i].reg[0] == 0) {
            result->failed++;
            continue;
        }
        result->tested++;
        result->bits += r->reqs[i].reg[0];
        result->errors += r->reqs[i].reg[1];
        result->bad += r->reqs[i].reg[1] != 0;
        r->d->status.bist_errors[r->ports[i]] = r->reqs[i].reg[1];
    }
    r->d->dirty = true;
    pthread_mutex_unlock(&r->d->lock);
}

bool bist_run(struct inmd *d, const uint8_t *want, uint32_t us, struct bist_result *result)
{
    uint32_t ports = inm_topo_ports(d->topo), chips = inm_topo_chips(d->topo), port;
    struct run r = {.d = d,
                    .us = us,
                    .peer = malloc(ports * sizeof(uint32_t)),
                    .round = malloc(ports),
                    .routes = malloc(chips * sizeof(*r.routes)),
                    .reqs = malloc(ports * sizeof(*r.reqs)),
                    .ports = malloc(ports * sizeof(*r.ports))};
    uint32_t *queue = malloc(d->topo->num_nrc * sizeof(*queue)), k;
    uint8_t *seen = malloc(d->topo->num_nrc);
    double begin = now_seconds();
    bool ok = r.peer && r.round && r.routes && r.reqs && r.ports && queue && seen;

    memset(result, 0, sizeof(*result));
    if (ok) {
        pthread_mutex_lock(&d->lock);
        memcpy(r.peer, d->found.peer, ports * sizeof(*r.peer));
        pthread_mutex_unlock(&d->lock);
        result->rounds = bist_plan(d->topo, r.peer, d->topo->server, want, r.round);
        for (port = 0; port < ports; port++) {
            if (port < r.peer[port] && r.peer[port] != INM_NONE && r.round[port] != 0) {
                result->links++;
                result->bridges += r.round[port] == BIST_NEVER;
            }
        }
        for (k = 1; k <= result->rounds; k++) {
            run_round(&r, (uint8_t)k, queue, seen, result);
        }
    }
    free(r.peer);
    free(r.round);
    free(r.routes);
    free(r.reqs);
    free(r.ports);
    free(queue);
    free(seen);
    result->seconds = now_seconds() - begin;
    return ok && result->failed == 0;
}
