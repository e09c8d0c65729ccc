/* The graph of routers; see graph.h. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static int by_rank(const void *a, const void *b, void *arg)
{
    const uint32_t *rank = arg;
    uint32_t x = rank[*(const uint32_t *)a], y = rank[*(const uint32_t *)b];

    return x > y ? -1 : x < y;
}

static bool unused(const struct graph *g, const uint8_t *gone, uint32_t port)
{
    return gone != NULL && (gone[inm_topo_port_chip(g->topo, port)] ||
                            gone[inm_topo_port_chip(g->topo, g->peer[port])]);
}

static void add_links(struct graph *g, uint32_t chip, bool up)
{
    struct graph_node *node = &g->nodes[chip];
    uint32_t i, peer, other;

    for (i = 0; i < INM_NRC_PORTS; i++) {
        peer = g->peer[chip * INM_NRC_PORTS + i];
        other = peer / INM_NRC_PORTS;
        if (peer < g->topo->num_nrc * INM_NRC_PORTS && (g->rank[other] > g->rank[chip]) == up) {
            node->other[node->num] = other;
            node->port[node->num++] = (uint8_t)i;
        } else if (peer != INM_NONE && peer >= g->topo->num_nrc * INM_NRC_PORTS) {
            node->hosts = (uint16_t)(node->hosts + up); /* counted in one of the two passes */
        }
    }
    if (up) {
        node->num_up = node->num;
    }
}

bool graph_init(struct graph *g, const struct inm_topo *topo, const uint32_t *peer,
                const uint8_t *hop, const uint8_t *gone)
{
    uint32_t n = topo->num_nrc, ports = inm_topo_ports(topo), i, level;

    *g = (struct graph){.topo = topo};
    g->peer = malloc(ports * sizeof(*g->peer));
    g->rank = malloc(n * sizeof(*g->rank));
    g->order = malloc(n * sizeof(*g->order));
    g->nodes = calloc(n, sizeof(*g->nodes));
    g->down = malloc(n);
    g->dist = malloc(n);
    g->queue = malloc(n * sizeof(*g->queue));
    if (!g->peer || !g->rank || !g->order || !g->nodes || !g->down || !g->dist || !g->queue) {
        graph_free(g);
        return false;
    }
    memcpy(g->peer, peer, ports * sizeof(*g->peer));
    for (i = 0; i < ports; i++) {
        uint32_t other = g->peer[i];

        if (other != INM_NONE && unused(g, gone, i)) {
            g->peer[other] = INM_NONE;
            g->peer[i] = INM_NONE;
        }
    }
    for (i = 0; i < n; i++) {
        level = topo->tree.racks != 0 ? topo->chips[i].level : 63u - hop[i] % 64;
        g->rank[i] = level << 20 | i;
        g->order[i] = i;
    }
    qsort_r(g->order, n, sizeof(*g->order), by_rank, g->rank);
    for (i = 0; i < n; i++) {
        add_links(g, i, true);
        add_links(g, i, false);
    }
    return true;
}

void graph_free(struct graph *g)
{
    free(g->peer);
    free(g->rank);
    free(g->order);
    free(g->nodes);
    free(g->down);
    free(g->dist);
    free(g->queue);
    memset(g, 0, sizeof(*g));
}

void graph_measure(struct graph *g, uint32_t to)
{
    uint32_t head = 0, tail = 0, i, k;

    memset(g->down, GRAPH_FAR, g->topo->num_nrc);
    g->down[to] = 0;
    g->queue[tail++] = to;
    while (head < tail) { /* upwards from the destination, so downwards to it */
        const struct graph_node *node = &g->nodes[g->queue[head]];
        uint8_t next = (uint8_t)(g->down[g->queue[head++]] + 1);

        for (i = 0; i < node->num_up; i++) {
            if (g->down[node->other[i]] == GRAPH_FAR) {
                g->down[node->other[i]] = next;
                g->queue[tail++] = node->other[i];
            }
        }
    }
    for (k = 0; k < g->topo->num_nrc; k++) {
        uint32_t chip = g->order[k];
        const struct graph_node *node = &g->nodes[chip];

        g->dist[chip] = g->down[chip];
        for (i = 0; i < node->num_up && g->down[chip] == GRAPH_FAR; i++) {
            if (g->dist[node->other[i]] + 1 < g->dist[chip]) {
                g->dist[chip] = (uint8_t)(g->dist[node->other[i]] + 1);
            }
        }
    }
}

uint32_t graph_ways(const struct graph *g, uint32_t chip)
{
    const struct graph_node *node = &g->nodes[chip];
    bool down = g->down[chip] != GRAPH_FAR;
    const uint8_t *hops = down ? g->down : g->dist;
    uint32_t i = down ? node->num_up : 0, end = down ? node->num : node->num_up, ports = 0;

    for (; i < end && hops[chip] != GRAPH_FAR; i++) {
        if (hops[node->other[i]] + 1 == hops[chip]) {
            ports |= 1u << node->port[i];
        }
    }
    return ports;
}

uint32_t graph_home(const struct graph *g, uint32_t nic, uint32_t *index)
{
    uint32_t port = g->peer[inm_topo_port(g->topo, g->topo->num_nrc + nic, 0)], chip;

    if (port == INM_NONE) {
        return INM_NONE;
    }
    chip = inm_topo_port_chip(g->topo, port);
    *index = inm_topo_port_index(g->topo, port);
    return chip < g->topo->num_nrc ? chip : INM_NONE;
}

/* ---- redundancy ------------------------------------------------------------------------------ */

/* Depth-first search for links and routers whose loss separates others (Tarjan). */
struct search {
    const struct graph *g;
    uint32_t *number; /* in the order of the search, from 1; 0: not seen */
    uint32_t *low;    /* the lowest number that is reached around the way of the search */
    uint32_t *parent;
    uint8_t *entry;    /* index of the link to the parent, in the node */
    uint8_t *next;     /* index of the next link to follow */
    uint32_t *visited; /* NRCs in the order of the search */
    uint32_t num;
};

static void visit(struct search *s, uint32_t chip, uint32_t parent, uint8_t entry)
{
    s->visited[s->num++] = chip;
    s->number[chip] = s->low[chip] = s->num;
    s->parent[chip] = parent;
    s->entry[chip] = entry;
    s->next[chip] = 0;
}

/* The index, in the node of `other`, of the link that is `index` in the node of `chip`. */
static uint8_t far_index(const struct graph *g, uint32_t chip, uint32_t index, uint32_t other)
{
    uint32_t port = g->peer[chip * INM_NRC_PORTS + g->nodes[chip].port[index]] % INM_NRC_PORTS;
    uint8_t i;

    for (i = 0; g->nodes[other].port[i] != port; i++) {
    }
    return i;
}

static void search_from(struct search *s, uint32_t root)
{
    uint32_t chip = root, other, parent;

    visit(s, root, INM_NONE, UINT8_MAX);
    while (chip != INM_NONE) {
        const struct graph_node *node = &s->g->nodes[chip];

        if (s->next[chip] == node->num) {
            parent = s->parent[chip];
            if (parent != INM_NONE && s->low[chip] < s->low[parent]) {
                s->low[parent] = s->low[chip];
            }
            chip = parent;
            continue;
        }
        if (s->next[chip] == s->entry[chip]) {
            s->next[chip]++; /* back over the same link does not count */
            continue;
        }
        other = node->other[s->next[chip]++];
        if (s->number[other] == 0) {
            visit(s, other, chip, far_index(s->g, chip, s->next[chip] - 1u, other));
            chip = other;
        } else if (s->number[other] < s->low[chip]) {
            s->low[chip] = s->number[other];
        }
    }
}

/* Whether the loss of a router's parent, or of the link to the parent, separates the router. */
static bool separable(const struct search *s, uint32_t chip)
{
    uint32_t parent = s->parent[chip];
    bool at_root = s->parent[parent] == INM_NONE;

    return at_root ? s->low[chip] > s->number[parent] : s->low[chip] >= s->number[parent];
}

/* Counts each router with all below it in the search; children come after their parents. */
static void count_below(const struct search *s, uint32_t *below)
{
    uint32_t i, chip;

    memset(below, 0, s->g->topo->num_nrc * sizeof(*below));
    for (i = s->num; i > 0; i--) {
        chip = s->visited[i - 1];
        below[chip]++;
        if (s->parent[chip] != INM_NONE) {
            below[s->parent[chip]] += below[chip];
        }
    }
}

/* The root of a separable part that has most of the routers; INM_NONE: the search began well. */
static uint32_t better_root(const struct search *s, const uint32_t *below)
{
    uint32_t i, chip;

    for (i = s->num; i > 1; i--) {
        chip = s->visited[i - 1];
        if (below[chip] * 2 > s->num && separable(s, chip)) {
            return chip;
        }
    }
    return INM_NONE;
}

static void mark(const struct search *s, const uint32_t *below, uint8_t *connected,
                 uint8_t *redundant)
{
    uint32_t i, chip, parent, children = 0, largest = INM_NONE;

    for (i = 1; i < s->num; i++) {
        chip = s->visited[i];
        if (s->parent[chip] == s->visited[0]) {
            children++;
            largest = largest == INM_NONE || below[chip] > below[largest] ? chip : largest;
        }
    }
    for (i = 0; i < s->num; i++) {
        chip = s->visited[i];
        parent = s->parent[chip];
        connected[chip] = 1;
        /* The loss of the first router itself separates all its children but the largest. */
        redundant[chip] =
            parent == INM_NONE || (redundant[parent] && !separable(s, chip) &&
                                   (parent != s->visited[0] || children == 1 || chip == largest));
    }
}

static uint32_t size_from(const struct graph *g, uint32_t root, uint8_t *seen)
{
    uint32_t head = 0, tail = 0, i;

    seen[root] = 1;
    g->queue[tail++] = root;
    while (head < tail) {
        const struct graph_node *node = &g->nodes[g->queue[head++]];

        for (i = 0; i < node->num; i++) {
            if (!seen[node->other[i]]) {
                seen[node->other[i]] = 1;
                g->queue[tail++] = node->other[i];
            }
        }
    }
    return tail;
}

/* The uppermost router of the largest part. */
static uint32_t best_root(const struct graph *g, uint8_t *seen)
{
    uint32_t k, size, largest = 0, root = g->order[0];

    for (k = 0; k < g->topo->num_nrc; k++) {
        if (!seen[g->order[k]]) {
            size = size_from(g, g->order[k], seen);
            if (size > largest) {
                largest = size;
                root = g->order[k];
            }
        }
    }
    return root;
}

bool graph_redundancy(const struct graph *g, uint8_t *connected, uint8_t *redundant)
{
    uint32_t n = g->topo->num_nrc;
    struct search s = {.g = g};
    uint8_t *seen = calloc(n, 1);
    uint32_t root, tries = 0;
    bool ok;

    memset(connected, 0, n);
    memset(redundant, 0, n);
    s.number = calloc(n, sizeof(*s.number));
    s.low = calloc(n, sizeof(*s.low));
    s.parent = malloc(n * sizeof(*s.parent));
    s.visited = malloc(n * sizeof(*s.visited));
    s.entry = malloc(n);
    s.next = malloc(n);
    ok = seen && s.number && s.low && s.parent && s.visited && s.entry && s.next;
    for (root = ok ? best_root(g, seen) : INM_NONE; root != INM_NONE && tries < 64; tries++) {
        s.num = 0;
        memset(s.number, 0, n * sizeof(*s.number));
        search_from(&s, root);
        count_below(&s, g->queue);
        root = better_root(&s, g->queue);
    }
    if (ok) {
        mark(&s, g->queue, connected, redundant);
    }
    free(seen);
    free(s.number);
    free(s.low);
    free(s.parent);
    free(s.visited);
    free(s.entry);
    free(s.next);
    return ok;
}

uint64_t graph_print(const struct graph *g)
{
    uint64_t print = 0xcbf29ce484222325ull; /* FNV-1a */
    uint32_t i;

    for (i = 0; i < inm_topo_ports(g->topo); i++) {
        print = (print ^ g->peer[i]) * 0x100000001b3ull;
    }
    return print;
}
