/* Topologies: chips, wires and their names; see topo.h. */
#include "topo.h"
#include "common/nmp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct inm_topo *inm_topo_new(uint32_t num_nrc, uint32_t num_nic)
{
    struct inm_topo *topo = calloc(1, sizeof(*topo));
    uint32_t i;

    if (topo == NULL) {
        return NULL;
    }
    topo->num_nrc = num_nrc;
    topo->num_nic = num_nic;
    topo->chips = calloc((size_t)num_nrc + num_nic + 1, sizeof(*topo->chips));
    topo->peer = malloc(sizeof(*topo->peer) * ((size_t)inm_topo_ports(topo) + 1));
    if (topo->chips == NULL || topo->peer == NULL) {
        inm_topo_free(topo);
        return NULL;
    }
    for (i = 0; i < inm_topo_ports(topo); i++) {
        topo->peer[i] = INM_NONE;
    }
    for (i = 0; i < inm_topo_chips(topo); i++) {
        topo->chips[i].type = i < num_nrc ? NMP_CHIP_NRC : NMP_CHIP_NIC;
    }
    return topo;
}

void inm_topo_free(struct inm_topo *topo)
{
    if (topo != NULL) {
        free(topo->chips);
        free(topo->peer);
        free(topo);
    }
}

bool inm_topo_wire(struct inm_topo *topo, uint32_t a, uint32_t b)
{
    if (a == b || topo->peer[a] != INM_NONE || topo->peer[b] != INM_NONE) {
        return false;
    }
    topo->peer[a] = b;
    topo->peer[b] = a;
    topo->num_links++;
    return true;
}

uint32_t inm_topo_find(const struct inm_topo *topo, unsigned type, uint32_t id)
{
    if (type == NMP_CHIP_NRC) {
        return id < topo->num_nrc ? id : INM_NONE;
    }
    return type == NMP_CHIP_NIC && id < topo->num_nic ? topo->num_nrc + id : INM_NONE;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *inm_chip_name(const struct inm_topo *topo, uint32_t chip, char buf[INM_NAME_MAX])
{
    const struct inm_chip *c;

    if (chip >= inm_topo_chips(topo)) {
        snprintf(buf, INM_NAME_MAX, "none");
        return buf;
    }
    c = &topo->chips[chip];
    if (topo->tree.racks == 0) {
        snprintf(buf, INM_NAME_MAX, "%s%u", c->type == NMP_CHIP_NRC ? "nrc" : "nic",
                 inm_chip_id(topo, chip));
    } else if (c->level <= INM_LEVEL_BOTTOM_SPINE) {
        snprintf(buf, INM_NAME_MAX, "r%uf%u%c%u", c->cabinet, c->frame,
                 c->type == NMP_CHIP_NRC ? 'n' : 'h', c->slot);
    } else if (c->level == INM_LEVEL_LEAF) {
        snprintf(buf, INM_NAME_MAX, "l%us%ub%u", c->cabinet, c->frame, c->index);
    } else {
        snprintf(buf, INM_NAME_MAX, "t%ub%un%u", c->cabinet, c->index, c->slot);
    }
    return buf;
}

const char *inm_port_name(const struct inm_topo *topo, uint32_t port, char buf[INM_NAME_MAX])
{
    size_t len;

    inm_chip_name(topo, inm_topo_port_chip(topo, port), buf);
    len = strlen(buf);
    snprintf(buf + len, INM_NAME_MAX - len, ":%u", inm_topo_port_index(topo, port));
    return buf;
}

const char *inm_chip_place(const struct inm_topo *topo, uint32_t chip, char buf[64])
{
    const struct inm_chip *c = &topo->chips[chip];

    if (topo->tree.racks == 0) {
        snprintf(buf, 64, "%s %u", c->type == NMP_CHIP_NRC ? "NRC" : "NIC",
                 inm_chip_id(topo, chip));
    } else if (c->level <= INM_LEVEL_BOTTOM_SPINE) {
        snprintf(buf, 64, "rack %u, frame %u, %s %u", c->cabinet, c->frame,
                 c->type == NMP_CHIP_NRC ? "chip" : "host", c->slot);
    } else if (c->level == INM_LEVEL_LEAF) {
        snprintf(buf, 64, "leaf cabinet %u, set %u, switch %u", c->cabinet, c->frame, c->index);
    } else {
        snprintf(buf, 64, "root cabinet %u, switch %u, chip %u", c->cabinet, c->index, c->slot);
    }
    return buf;
}

const char *inm_board_name(const struct inm_topo *topo, uint32_t chip, char buf[INM_NAME_MAX])
{
    const struct inm_chip *c = &topo->chips[chip];

    if (topo->tree.racks == 0 || c->level == INM_LEVEL_LEAF) {
        return inm_chip_name(topo, chip, buf);
    }
    if (c->level <= INM_LEVEL_BOTTOM_SPINE) {
        snprintf(buf, INM_NAME_MAX, "r%uf%u", c->cabinet, c->frame);
    } else {
        snprintf(buf, INM_NAME_MAX, "t%ub%u", c->cabinet, c->index);
    }
    return buf;
}

const char *inm_cabinet_name(const struct inm_topo *topo, uint32_t chip, char buf[INM_NAME_MAX])
{
    const struct inm_chip *c = &topo->chips[chip];
    char kind = c->level <= INM_LEVEL_BOTTOM_SPINE ? 'r' : c->level == INM_LEVEL_LEAF ? 'l' : 't';

    if (topo->tree.racks == 0) {
        return inm_chip_name(topo, chip, buf);
    }
    snprintf(buf, INM_NAME_MAX, "%c%u", kind, c->cabinet);
    return buf;
}

/* Returns the chip with the numbers of `want`, which come from a name; INM_NONE. */
static uint32_t tree_chip(const struct inm_topo *topo, const struct inm_chip *want, bool nic)
{
    const struct inm_tree *t = &topo->tree;
    uint32_t nrcs = t->bottom_edges + t->bottom_spines;
    uint32_t groups = (t->racks + t->service_racks) / t->racks_a_group, chip;

    if (want->level == INM_LEVEL_NIC) {
        if (want->frame >= t->frames || want->cabinet >= t->racks + t->service_racks) {
            return INM_NONE;
        }
        chip = (uint32_t)want->cabinet * t->frames + want->frame;
        if (nic) {
            return want->cabinet < t->racks && want->slot < t->hosts ?
                       topo->num_nrc + chip * t->hosts + want->slot :
                       INM_NONE;
        }
        return want->slot < nrcs ? chip * nrcs + want->slot : INM_NONE;
    }
    chip = (t->racks + t->service_racks) * t->frames * nrcs;
    if (want->level == INM_LEVEL_LEAF) {
        uint32_t group = want->cabinet * t->sets_a_cabinet + want->frame;

        return want->frame < t->sets_a_cabinet && group < groups && want->index < t->leaves ?
                   chip + group * t->leaves + want->index :
                   INM_NONE;
    }
    chip += groups * t->leaves;
    nrcs = t->root_edges + t->root_spines;
    if (want->index >= t->roots_a_cabinet || want->slot >= nrcs ||
        want->cabinet * t->roots_a_cabinet + want->index >= t->leaves * t->leaf_uplinks) {
        return INM_NONE;
    }
    return chip + (want->cabinet * t->roots_a_cabinet + want->index) * nrcs + want->slot;
}

uint32_t inm_chip_parse(const struct inm_topo *topo, const char *name)
{
    struct inm_chip want = {0};
    unsigned a, b, c;
    char kind;
    int end = 0;

    if (sscanf(name, "nrc%9u%n", &a, &end) == 1 && name[end] == '\0') {
        return inm_topo_find(topo, NMP_CHIP_NRC, a);
    }
    if (sscanf(name, "nic%9u%n", &a, &end) == 1 && name[end] == '\0') {
        return inm_topo_find(topo, NMP_CHIP_NIC, a);
    }
    if (topo->tree.racks == 0) {
        return INM_NONE;
    }
    if (sscanf(name, "r%4uf%3u%c%3u%n", &a, &b, &kind, &c, &end) == 4 && name[end] == '\0' &&
        (kind == 'n' || kind == 'h') && b < 256 && c < 256) {
        want = (struct inm_chip){.cabinet = (uint16_t)a, .frame = (uint8_t)b, .slot = (uint8_t)c};
        return tree_chip(topo, &want, kind == 'h');
    }
    if (sscanf(name, "l%4us%3ub%4u%n", &a, &b, &c, &end) == 3 && name[end] == '\0' && b < 256) {
        want = (struct inm_chip){.level = INM_LEVEL_LEAF,
                                 .cabinet = (uint16_t)a,
                                 .frame = (uint8_t)b,
                                 .index = (uint16_t)c};
        return tree_chip(topo, &want, false);
    }
    if (sscanf(name, "t%4ub%4un%3u%n", &a, &b, &c, &end) == 3 && name[end] == '\0' && c < 256) {
        want = (struct inm_chip){.level = INM_LEVEL_ROOT_EDGE,
                                 .cabinet = (uint16_t)a,
                                 .index = (uint16_t)b,
                                 .slot = (uint8_t)c};
        return tree_chip(topo, &want, false);
    }
    return INM_NONE;
}

uint32_t inm_port_parse(const struct inm_topo *topo, const char *name)
{
    const char *colon = strrchr(name, ':');
    char chip_name[INM_NAME_MAX], *end;
    unsigned long port;
    uint32_t chip;

    if (colon == NULL || (size_t)(colon - name) >= sizeof(chip_name)) {
        return INM_NONE;
    }
    memcpy(chip_name, name, (size_t)(colon - name));
    chip_name[colon - name] = '\0';
    chip = inm_chip_parse(topo, chip_name);
    if (chip == INM_NONE || colon[1] < '0' || colon[1] > '9') {
        return INM_NONE;
    }
    port = strtoul(colon + 1, &end, 10);
    return *end == '\0' && port < inm_chip_ports(topo, chip) ?
               inm_topo_port(topo, chip, (uint32_t)port) :
               INM_NONE;
}

const char *inm_level_name(unsigned level)
{
    static const char *const names[INM_LEVEL_NUM] = {"host", "bottom edge", "bottom spine",
                                                     "leaf", "root edge",   "root spine"};

    return level < INM_LEVEL_NUM ? names[level] : "unknown";
}

static uint32_t leaf_cabinets(const struct inm_tree *t)
{
    uint32_t groups = (t->racks + t->service_racks) / t->racks_a_group;

    return (groups + t->sets_a_cabinet - 1) / t->sets_a_cabinet;
}

uint32_t inm_topo_cabinets(const struct inm_topo *topo)
{
    const struct inm_tree *t = &topo->tree;

    if (t->racks == 0) {
        return inm_topo_chips(topo);
    }
    return t->racks + t->service_racks + leaf_cabinets(t) +
           (t->leaves * t->leaf_uplinks + t->roots_a_cabinet - 1) / t->roots_a_cabinet;
}

uint32_t inm_chip_cabinet(const struct inm_topo *topo, uint32_t chip)
{
    const struct inm_tree *t = &topo->tree;
    const struct inm_chip *c = &topo->chips[chip];

    if (t->racks == 0) {
        return chip;
    }
    if (c->level <= INM_LEVEL_BOTTOM_SPINE) {
        return c->cabinet;
    }
    if (c->level == INM_LEVEL_LEAF) {
        return t->racks + t->service_racks + c->cabinet;
    }
    return t->racks + t->service_racks + leaf_cabinets(t) + c->cabinet;
}
