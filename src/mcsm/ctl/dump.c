#include "ctl.h"

static const char *type_name(const struct mcsm_node *node)
{
    return node->type == 2 ? "Switch" : node->type == 3 ? "Router" : "Channel Adapter";
}

static void lft_of(const struct mcsm_sm *sm, const struct mcsm_node *node, FILE *out)
{
    unsigned entries = 0;

    fprintf(out, "Unicast lids [0x0-0x%x] of switch Lid %u guid 0x%016lx (%s):\n",
            sm->graph ? sm->graph->lid_top : 0, node->ports[0].lid, node->guid, node->desc);
    fprintf(out, "  Lid  Out   Destination\n       Port     Info\n");
    for (unsigned lid = 1; lid < node->lft_size; lid++) {
        const struct mcsm_port *port = mcsm_fabric_by_lid(sm->fabric, lid);

        if (node->lft[lid] == MCSM_DROP) {
            continue;
        }
        entries++;
        if (port != NULL) {
            fprintf(out, "0x%04x %03u : (%s portguid 0x%016lx: '%s')\n", lid, node->lft[lid],
                    type_name(port->node), port->guid, port->node->desc);
        } else {
            fprintf(out, "0x%04x %03u : (other cluster)\n", lid, node->lft[lid]);
        }
    }
    fprintf(out, "%u valid lids dumped\n\n", entries);
}

void mcsm_dump_lft(const struct mcsm_sm *sm, FILE *out)
{
    for (int i = 0; i < sm->fabric->switch_count; i++) {
        if (sm->fabric->switches[i]->lft != NULL) {
            lft_of(sm, sm->fabric->switches[i], out);
        }
    }
}

static bool in_mft(const struct mcsm_node *node, unsigned mlids, unsigned index, int port)
{
    return node->mft[port / 16 * mlids + index] >> port % 16 & 1;
}

static bool has_entry(const struct mcsm_node *node, unsigned mlids, unsigned index)
{
    for (int position = 0; position < mcsm_mft_positions(node); position++) {
        if (node->mft[position * mlids + index] != 0) {
            return true;
        }
    }
    return false;
}

static void mft_of(const struct mcsm_sm *sm, const struct mcsm_node *node, FILE *out)
{
    unsigned mlids = sm->config->mlids, entries = 0;

    fprintf(out, "Multicast mlids [0xc000-0x%x] of switch Lid %u guid 0x%016lx (%s):\n",
            MCSM_MLID_MIN + mlids - 1, node->ports[0].lid, node->guid, node->desc);
    fprintf(out, "MLid   Out Ports\n");
    for (unsigned i = 0; i < mlids; i++) {
        if (!has_entry(node, mlids, i)) {
            continue;
        }
        fprintf(out, "0x%04x", MCSM_MLID_MIN + i);
        for (int p = 0; p <= node->nports; p++) {
            if (in_mft(node, mlids, i, p)) {
                fprintf(out, " %d", p);
            }
        }
        fputc('\n', out);
        entries++;
    }
    fprintf(out, "%u valid mlids dumped\n\n", entries);
}

void mcsm_dump_mft(const struct mcsm_sm *sm, FILE *out)
{
    for (int i = 0; i < sm->fabric->switch_count; i++) {
        if (sm->fabric->switches[i]->mft != NULL) {
            mft_of(sm, sm->fabric->switches[i], out);
        }
    }
}

/* ---- for mcsm-check: see docs/mcsm.md, "The dump of a cluster" ---- */

static void dump_node(const struct mcsm_node *node, FILE *out)
{
    fprintf(out, "node %s 0x%016lx %u \"%s\"\n", node->sw ? "switch" : "ca", node->guid,
            node->nports, node->desc);
    for (int p = 0; p <= node->nports; p++) {
        const struct mcsm_port *port = &node->ports[p];

        if (mcsm_is_end_port(port) && port->lid != 0) {
            fprintf(out, "lid 0x%016lx %d 0x%016lx %u\n", node->guid, p, port->guid, port->lid);
        }
        if (port->peer != NULL && p > 0 && mcsm_port_usable(port) &&
            (port->peer->node->guid > node->guid ||
             (port->peer->node == node && port->peer->num > p))) {
            fprintf(out, "link 0x%016lx %d 0x%016lx %u\n", node->guid, p, port->peer->node->guid,
                    port->peer->num);
        }
    }
}

/* Writes runs of LIDs with the same output port: "1-18:5". */
static void dump_lft_of(const struct mcsm_node *node, FILE *out)
{
    unsigned from = 1;

    fprintf(out, "lft 0x%016lx", node->guid);
    for (unsigned lid = 2; lid <= node->lft_size; lid++) {
        if (lid < node->lft_size && node->lft[lid] == node->lft[from]) {
            continue;
        }
        if (node->lft[from] != MCSM_DROP) {
            fprintf(out, " %u-%u:%u", from, lid - 1, node->lft[from]);
        }
        from = lid;
    }
    fputc('\n', out);
}

static void dump_mft_of(const struct mcsm_node *node, unsigned mlids, FILE *out)
{
    for (unsigned i = 0; i < mlids; i++) {
        if (!has_entry(node, mlids, i)) {
            continue;
        }
        fprintf(out, "mft 0x%016lx %u", node->guid, MCSM_MLID_MIN + i);
        for (int p = 0; p <= node->nports; p++) {
            if (in_mft(node, mlids, i, p)) {
                fprintf(out, " %d", p);
            }
        }
        fputc('\n', out);
    }
}

/* Writes mcsm_graph.ring of each switch, which maps levels to lanes: a hexadecimal digit for each
 * port from port 0 on. */
static void dump_rings(const struct mcsm_graph *graph, FILE *out)
{
    for (int i = 0; i < graph->count && graph->ring != NULL; i++) {
        fprintf(out, "rings 0x%016lx ", graph->sw[i].guid);
        for (int p = 0; p <= graph->sw[i].nports; p++) {
            fprintf(out, "%x", graph->ring[graph->sw[i].first_link + p]);
        }
        fputc('\n', out);
    }
}

/* The levels of pairs of switches: a row for each switch, with a hexadecimal digit for each other
 * switch, in the order of GUIDs. */
static void dump_lanes(const struct mcsm_sm *sm, FILE *out)
{
    const struct mcsm_graph *graph = sm->graph;

    fprintf(out, "multicast-sl %u\n", sm->config->multicast_sl);
    if (graph == NULL || graph->lanes == 1 || graph->count != sm->fabric->switch_count) {
        return;
    }
    for (int i = 0; i < graph->count; i++) {
        fprintf(out, "lanes 0x%016lx ", graph->sw[i].guid);
        for (int k = 0; k < graph->count; k++) {
            fprintf(out, "%x", mcsm_lane(graph, i, k));
        }
        fputc('\n', out);
    }
    dump_rings(graph, out);
}

void mcsm_dump_fabric(const struct mcsm_sm *sm, FILE *out)
{
    const struct mcsm_config *config = sm->config;
    struct mcsm_node *node, *next;

    fprintf(out, "mcsm-dump 1\ncluster %s %u %u\n", config->name, config->lids.from,
            config->lids.to);
    HASH_ITER(hh, sm->fabric->nodes, node, next) {
        dump_node(node, out);
    }
    dump_lanes(sm, out);
    for (size_t i = 0; i < config->border_count; i++) {
        const struct mcsm_border *border = &config->borders[i];
        const struct mcsm_node *sw = mcsm_fabric_find(sm->fabric, border->guid);

        if (sw == NULL || border->port > sw->nports ||
            sw->ports[border->port].state < MCSM_STATE_INIT || sw->ports[border->port].drained) {
            continue;
        }
        fprintf(out, "border 0x%016lx %u %s 0x%016lx %u%s%s\n", border->guid, border->port,
                config->neighbours[border->neighbour].name, border->peer_guid, border->peer_port,
                border->transit ? " transit" : "", border->joint ? " joint" : "");
    }
    for (int i = 0; i < sm->fabric->switch_count; i++) {
        node = sm->fabric->switches[i];
        if (node->lft != NULL) {
            dump_lft_of(node, out);
        }
        if (node->mft != NULL) {
            dump_mft_of(node, config->mlids, out);
        }
    }
    fputs("end\n", out);
}
