#include "page.h"

#include <string.h>
#include <time.h>

extern const char mcsm_page_html[]; /* page.html; "@data@" stands for the JSON */

/* Larger tables would make a page that no browser opens. */
enum { TABLES_MAX = 64 << 20 };

static void text(FILE *out, const char *words)
{
    fputc('"', out);
    for (; *words != '\0'; words++) {
        if ((unsigned char)*words < ' ' || strchr("<>&\"\\", *words) != NULL) {
            fprintf(out, "\\u%04x", (unsigned char)*words);
        } else {
            fputc(*words, out);
        }
    }
    fputc('"', out);
}

static uint64_t load_of(const struct mcsm_sm *sm, const struct mcsm_port *port)
{
    const struct mcsm_graph *graph = sm->graph;

    if (!port->node->sw || graph == NULL || graph->count != sm->fabric->switch_count) {
        return 0;
    }
    return graph->load[graph->sw[port->node->index].first_link + port->num];
}

/* Writes errors, flaps and the quoted state of the link of a port, with commas between them. */
static void health_of(const struct mcsm_health *health, const struct mcsm_port *port, FILE *out)
{
    static const char *const states[] = {"up", "down", "kept", "held"};
    const struct mcsm_link *link =
        health ? mcsm_health_find(health, port->node->guid, port->num) : NULL;
    uint64_t errors = 0, flaps = 0;

    if (link != NULL) {
        errors = mcsm_counters_noise(link->ends[0].counters.total) +
                 mcsm_counters_noise(link->ends[1].counters.total);
        flaps = link->total_flaps;
    }
    fprintf(out, "%lu,%lu,\"%s\"", errors, flaps,
            port->drained && !port->held ? "drained" :
            link                         ? states[mcsm_health_state(link)] :
                                           "up");
}

static void base64(FILE *out, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < count; i += 3) {
        unsigned rest = count - i < 3 ? count - i : 3;
        unsigned bits =
            bytes[i] << 16 | (rest > 1 ? bytes[i + 1] << 8 : 0) | (rest > 2 ? bytes[i + 2] : 0);

        for (unsigned k = 0; k < 4; k++) {
            fputc(k <= rest ? digits[bits >> (18 - 6 * k) & 63] : '=', out);
        }
    }
}

/* The ports that any group uses. */
static void groups_of(const struct mcsm_sm *sm, const struct mcsm_node *node, FILE *out)
{
    const char *comma = "";

    fputc('[', out);
    for (int p = 1; p <= node->nports && node->mft != NULL; p++) {
        const uint16_t *row = node->mft + (size_t)(p / 16) * sm->config->mlids;
        bool used = false;

        for (unsigned i = 0; i < sm->config->mlids && !used; i++) {
            used = row[i] >> p % 16 & 1;
        }
        if (used) {
            fprintf(out, "%s%d", comma, p);
            comma = ",";
        }
    }
    fputc(']', out);
}

static void switches(const struct mcsm_sm *sm, FILE *out)
{
    const struct mcsm_fabric *fabric = sm->fabric;
    unsigned top = sm->graph ? sm->graph->lid_top : 0;
    bool tables = (uint64_t)fabric->switch_count * top <= TABLES_MAX;

    for (int i = 0; i < fabric->switch_count; i++) {
        const struct mcsm_node *node = fabric->switches[i];

        fprintf(out, "%s\n{\"guid\":\"0x%016lx\",\"ports\":%u,\"lid\":%u,\"name\":", i ? "," : "",
                node->guid, node->nports, node->ports[0].lid);
        text(out, node->desc);
        fputs(",\"groups\":", out);
        groups_of(sm, node, out);
        if (tables && node->lft != NULL && node->lft_size > top) {
            fputs(",\"lft\":\"", out);
            base64(out, node->lft, top + 1);
            fputc('"', out);
        }
        fputc('}', out);
    }
}

/* [name, port GUID, LID, number of LIDs, switch, port of the switch, errors, flaps, state] */
static void hosts(const struct mcsm_sm *sm, const struct mcsm_health *health, FILE *out)
{
    const char *comma = "";
    struct mcsm_node *node, *next;

    HASH_ITER(hh, sm->fabric->nodes, node, next) {
        for (int p = 1; p <= node->nports && !node->sw; p++) {
            const struct mcsm_port *port = &node->ports[p];

            if (port->peer == NULL || !port->peer->node->sw) {
                continue;
            }
            fprintf(out, "%s\n[", comma);
            text(out, node->desc);
            fprintf(out, ",\"0x%016lx\",%u,%u,%d,%u,", port->guid, port->lid, 1u << sm->config->lmc,
                    port->peer->node->index, port->peer->num);
            health_of(health, port, out);
            fputc(']', out);
            comma = ",";
        }
    }
}

/* [switch, port, switch, port, load, load of the other direction, errors, flaps, state] */
static void links(const struct mcsm_sm *sm, const struct mcsm_health *health, FILE *out)
{
    const char *comma = "";

    for (int i = 0; i < sm->fabric->switch_count; i++) {
        const struct mcsm_node *node = sm->fabric->switches[i];

        for (int p = 1; p <= node->nports; p++) {
            const struct mcsm_port *port = &node->ports[p], *peer = port->peer;

            if (peer == NULL || !peer->node->sw || peer->node->index < i ||
                (peer->node->index == i && peer->num < p)) {
                continue;
            }
            fprintf(out, "%s\n[%d,%d,%d,%u,%lu,%lu,", comma, i, p, peer->node->index, peer->num,
                    load_of(sm, port), load_of(sm, peer));
            health_of(health, port, out);
            fputc(']', out);
            comma = ",";
        }
    }
}

/* [switch, port, cluster, transit, joint, is up, errors, flaps, state] */
static void borders(const struct mcsm_sm *sm, const struct mcsm_health *health, FILE *out)
{
    const struct mcsm_config *config = sm->config;
    const char *comma = "";

    for (size_t i = 0; i < config->border_count; i++) {
        const struct mcsm_border *border = &config->borders[i];
        const struct mcsm_node *node = mcsm_fabric_find(sm->fabric, border->guid);

        if (node == NULL || !node->sw || border->port > node->nports) {
            continue;
        }
        fprintf(out, "%s\n[%d,%u,\"%s\",%d,%d,%d,", comma, node->index, border->port,
                config->neighbours[border->neighbour].name, border->transit, border->joint,
                node->ports[border->port].state >= MCSM_STATE_INIT);
        health_of(health, &node->ports[border->port], out);
        fputc(']', out);
        comma = ",";
    }
}

/* Writes a string for each switch. Its n-th digit says how levels select lanes at port n. */
static void rings(const struct mcsm_sm *sm, FILE *out)
{
    const struct mcsm_graph *graph = sm->graph;

    if (graph == NULL || graph->ring == NULL || graph->count != sm->fabric->switch_count) {
        return;
    }
    for (int i = 0; i < graph->count; i++) {
        fprintf(out, "%s\n\"", i ? "," : "");
        for (int p = 0; p <= graph->sw[i].nports; p++) {
            fprintf(out, "%x", graph->ring[graph->sw[i].first_link + p]);
        }
        fputc('"', out);
    }
}

/* Writes a string for each switch. Its n-th digit is the level of packets to the n-th switch. */
static void lanes(const struct mcsm_sm *sm, FILE *out)
{
    const struct mcsm_graph *graph = sm->graph;

    if (graph == NULL || graph->lanes == 1 || graph->count != sm->fabric->switch_count) {
        return;
    }
    for (int i = 0; i < graph->count; i++) {
        fprintf(out, "%s\n\"", i ? "," : "");
        for (int k = 0; k < graph->count; k++) {
            fprintf(out, "%x", mcsm_lane(graph, i, k));
        }
        fputc('"', out);
    }
}

static void data(const struct mcsm_sm *sm, const struct mcsm_health *health, FILE *out)
{
    char when[32];
    time_t now = time(NULL);
    struct tm utc;

    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
    fprintf(out,
            "{\"cluster\":\"%s\",\"time\":\"%s\",\"state\":\"%s\",\"engine\":\"%s\",\"lanes\":%d,"
            "\"multicast_sl\":%u,\"top\":%u,\"credit_loop\":%d,\"switches\":[",
            sm->config->name, when, mcsm_sm_state_name(sm->election.state),
            mcsm_engine_name(sm->stats.engine), sm->graph ? sm->graph->lanes : 1,
            sm->config->multicast_sl, sm->graph ? sm->graph->lid_top : 0, sm->stats.credit_loop);
    switches(sm, out);
    fputs("],\n\"hosts\":[", out);
    hosts(sm, health, out);
    fputs("],\n\"links\":[", out);
    links(sm, health, out);
    fputs("],\n\"borders\":[", out);
    borders(sm, health, out);
    fputs("],\n\"lane\":[", out);
    lanes(sm, out);
    fputs("],\n\"ring\":[", out);
    rings(sm, out);
    fputs("]}", out);
}

void mcsm_page(const struct mcsm_sm *sm, const struct mcsm_health *health, FILE *out)
{
    const char *mark = strstr(mcsm_page_html, "@data@");

    fwrite(mcsm_page_html, 1, mark - mcsm_page_html, out);
    data(sm, health, out);
    fputs(mark + strlen("@data@"), out);
}
