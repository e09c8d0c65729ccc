/*
 * The fat tree of Tianhe-2, of any size (paper, section 2 and figure 1).
 *
 * Bottom switch: edge NRCs bear the hosts; spine NRCs lead to the leaf switches. A leaf switch
 * is one NRC. The lower half of its ports leads to the bottom switches of its group, one link
 * each. The upper half leads to root switches. Root switch: edge NRCs, each for a block of groups, and spine NRCs. A
 * group has one link to each root switch. Longest way at full size: edge, spine, leaf, root edge,
 * root spine, root edge, leaf, spine, edge: the 8 hops between NRCs that the paper measured.
 */
#include "topo.h"
#include "common/nmp.h"

#include <stdio.h>
#include <string.h>

/* Where the NRCs of each stage begin. */
struct plan {
    uint32_t switches; /* bottom switches */
    uint32_t groups, group_switches;
    uint32_t leaf0, root0; /* first chip */
    uint32_t roots;
    uint32_t bottom_nrcs, root_nrcs; /* of a switch */
    uint32_t groups_an_edge;
};

static void make_plan(const struct inm_tree *t, struct plan *p)
{
    p->switches = (t->racks + t->service_racks) * t->frames;
    p->groups = (t->racks + t->service_racks) / t->racks_a_group;
    p->group_switches = t->racks_a_group * t->frames;
    p->bottom_nrcs = t->bottom_edges + t->bottom_spines;
    p->root_nrcs = t->root_edges + t->root_spines;
    p->leaf0 = p->switches * p->bottom_nrcs;
    p->root0 = p->leaf0 + p->groups * t->leaves;
    p->roots = t->leaves * t->leaf_uplinks;
    p->groups_an_edge = (p->groups + t->root_edges - 1) / t->root_edges;
}

/* What is wrong with the numbers; NULL: nothing. */
static const char *tree_error(const struct inm_tree *t)
{
    const uint32_t *number = (const uint32_t *)t;
    struct plan p;
    size_t i;

    for (i = 0; i < sizeof(*t) / sizeof(*number); i++) {
        if (number[i] > 4096) {
            return "a number is above 4096";
        }
        if (number[i] == 0 && number + i != &t->service_racks) {
            return "a number is 0 or missing";
        }
    }
    if ((t->racks + t->service_racks) % t->racks_a_group != 0) {
        return "racks and service_racks together are not a multiple of racks_a_group";
    }
    make_plan(t, &p);
    if (t->hosts % t->bottom_edges != 0 || t->leaves % t->bottom_spines != 0) {
        return "hosts must divide among bottom_edges, leaves among bottom_spines";
    }
    if (t->hosts / t->bottom_edges + t->bottom_spines * t->bottom_links > INM_NRC_PORTS ||
        t->leaves / t->bottom_spines + t->bottom_edges * t->bottom_links > INM_NRC_PORTS) {
        return "an NRC of the bottom switch would need more than 24 ports";
    }
    if (p.group_switches + t->leaf_uplinks > INM_NRC_PORTS) {
        return "a leaf switch would need more than 24 ports";
    }
    if (p.groups_an_edge + t->root_spines * t->root_links > INM_NRC_PORTS ||
        t->root_edges * t->root_links > INM_NRC_PORTS) {
        return "an NRC of the root switch would need more than 24 ports";
    }
    if ((uint64_t)p.root0 + (uint64_t)p.roots * p.root_nrcs > 60000 ||
        (uint64_t)t->racks * t->frames * t->hosts > 60000 || t->frames > 255 || t->hosts > 255) {
        return "more than 60000 NRCs or NICs, or more than 255 frames or hosts";
    }
    return NULL;
}

static void place_chips(struct inm_topo *topo, const struct plan *p)
{
    const struct inm_tree *t = &topo->tree;
    uint32_t i;

    for (i = 0; i < inm_topo_chips(topo); i++) {
        struct inm_chip *c = &topo->chips[i];

        if (i >= topo->num_nrc) {
            uint32_t host = i - topo->num_nrc;

            c->level = INM_LEVEL_NIC;
            c->board = host / t->hosts;
            c->slot = (uint8_t)(host % t->hosts);
        } else if (i < p->leaf0) {
            c->board = i / p->bottom_nrcs;
            c->slot = (uint8_t)(i % p->bottom_nrcs);
            c->level = c->slot < t->bottom_edges ? INM_LEVEL_BOTTOM_EDGE : INM_LEVEL_BOTTOM_SPINE;
        } else if (i < p->root0) {
            uint32_t group = (i - p->leaf0) / t->leaves;

            c->board = p->switches + i - p->leaf0;
            c->level = INM_LEVEL_LEAF;
            c->cabinet = (uint16_t)(group / t->sets_a_cabinet);
            c->frame = (uint8_t)(group % t->sets_a_cabinet);
            c->index = (uint16_t)((i - p->leaf0) % t->leaves);
        } else {
            uint32_t root = (i - p->root0) / p->root_nrcs;

            c->board = p->switches + p->groups * t->leaves + root;
            c->slot = (uint8_t)((i - p->root0) % p->root_nrcs);
            c->level = c->slot < t->root_edges ? INM_LEVEL_ROOT_EDGE : INM_LEVEL_ROOT_SPINE;
            c->cabinet = (uint16_t)(root / t->roots_a_cabinet);
            c->index = (uint16_t)(root % t->roots_a_cabinet);
        }
        if (c->level <= INM_LEVEL_BOTTOM_SPINE) {
            c->cabinet = (uint16_t)(c->board / t->frames);
            c->frame = (uint8_t)(c->board % t->frames);
        }
    }
    topo->num_boards = p->switches + p->groups * t->leaves + p->roots;
}

static bool wire(struct inm_topo *topo, uint32_t a, uint32_t port_a, uint32_t b, uint32_t port_b)
{
    return inm_topo_wire(topo, inm_topo_port(topo, a, port_a), inm_topo_port(topo, b, port_b));
}

/* Edges and spines of one switch: the spine's ports begin at `spine_port`. */
static bool wire_switch(struct inm_topo *topo, uint32_t first, uint32_t edges, uint32_t spines,
                        uint32_t links, uint32_t edge_port, uint32_t spine_port)
{
    uint32_t e, s, l;
    bool ok = true;

    for (e = 0; e < edges; e++) {
        for (s = 0; s < spines; s++) {
            for (l = 0; l < links; l++) {
                ok &= wire(topo, first + e, edge_port + s * links + l, first + edges + s,
                           spine_port + e * links + l);
            }
        }
    }
    return ok;
}

static bool wire_bottom(struct inm_topo *topo, const struct plan *p, uint32_t number)
{
    const struct inm_tree *t = &topo->tree;
    uint32_t first = number * p->bottom_nrcs, group = number / p->group_switches, i;
    uint32_t hosts = t->hosts / t->bottom_edges, up = t->leaves / t->bottom_spines;
    bool ok =
        wire_switch(topo, first, t->bottom_edges, t->bottom_spines, t->bottom_links, hosts, up);

    for (i = 0; i < t->hosts && number < t->racks * t->frames; i++) {
        ok &= wire(topo, first + i / hosts, i % hosts, topo->num_nrc + number * t->hosts + i, 0);
    }
    for (i = 0; i < t->leaves; i++) {
        ok &= wire(topo, first + t->bottom_edges + i / up, i % up, p->leaf0 + group * t->leaves + i,
                   number % p->group_switches);
    }
    return ok;
}

static bool wire_root(struct inm_topo *topo, const struct plan *p, uint32_t number)
{
    const struct inm_tree *t = &topo->tree;
    uint32_t first = p->root0 + number * p->root_nrcs, group;
    bool ok = wire_switch(topo, first, t->root_edges, t->root_spines, t->root_links,
                          p->groups_an_edge, 0);

    for (group = 0; group < p->groups; group++) {
        ok &= wire(topo, first + group / p->groups_an_edge, group % p->groups_an_edge,
                   p->leaf0 + group * t->leaves + number / t->leaf_uplinks,
                   p->group_switches + number % t->leaf_uplinks);
    }
    return ok;
}

struct inm_topo *inm_topo_tree(const char *name, const struct inm_tree *tree, char *error,
                               size_t size)
{
    const char *wrong = tree_error(tree);
    struct inm_topo *topo;
    struct plan p;
    bool ok = true;
    uint32_t i;

    if (wrong != NULL) {
        snprintf(error, size, "topology %s: %s", name, wrong);
        return NULL;
    }
    make_plan(tree, &p);
    topo = inm_topo_new(p.root0 + p.roots * p.root_nrcs, tree->racks * tree->frames * tree->hosts);
    if (topo == NULL) {
        snprintf(error, size, "topology %s: no memory", name);
        return NULL;
    }
    snprintf(topo->name, sizeof(topo->name), "%s", name);
    topo->tree = *tree;
    topo->server = topo->num_nrc;
    place_chips(topo, &p);
    for (i = 0; i < p.switches; i++) {
        ok &= wire_bottom(topo, &p, i);
    }
    for (i = 0; i < p.roots; i++) {
        ok &= wire_root(topo, &p, i);
    }
    if (!ok) {
        snprintf(error, size, "topology %s: two wires at one port", name);
        inm_topo_free(topo);
        return NULL;
    }
    return topo;
}
