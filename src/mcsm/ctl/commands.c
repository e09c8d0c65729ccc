/* The answers to mcsm-ctl, as JSON. */
#include "ctl.h"

#include "answer.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "links.h"
#include "metrics.h"
#include "page.h"
#include "sa/path.h"
#include "sm/vl_tables.h"

#include <errno.h>
#include <time.h>

enum { MAX_WORDS = 4 }; /* one more than any command has: too many is an error */

static const char *state_name(uint8_t state)
{
    static const char *const names[] = {"none", "DOWN", "INIT", "ARMED", "ACTIVE", "DEFER"};

    return state < 6 ? names[state] : "unknown";
}

/* ---- status, nodes, ports ---- */

static struct json_object *foreign_managers(const struct mcsm_sm *sm)
{
    struct json_object *json = json_object_new_array();

    for (const struct mcsm_rival *rival = sm->election.foreign; rival != NULL;
         rival = rival->next) {
        struct json_object *entry = json_object_new_object();

        mcsm_add_guid(entry, "port_guid", rival->guid);
        mcsm_add_number(entry, "lid", rival->lid);
        mcsm_add_text(entry, "state", mcsm_sm_state_name(rival->state));
        mcsm_add_number(entry, "priority", rival->priority);
        json_object_array_add(json, entry);
    }
    return json;
}

static void status(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const struct mcsm_sm *sm = daemon->sm;
    const struct mcsm_mad_stats *mads = mcsm_mads_stats(daemon->smps);
    const struct mcsm_sa_counters *sa = mcsm_sa_stats(daemon->sa);
    struct json_object *json = json_object_new_object();

    (void)arguments;
    mcsm_add_text(json, "cluster", sm->config->name);
    mcsm_add_text(json, "version", PACKAGE_VERSION);
    mcsm_add_text(json, "state", mcsm_sm_state_name(sm->election.state));
    json_object_object_add(
        json, "sweeping",
        json_object_new_boolean(sm->sweep.phase != MCSM_PHASE_IDLE || sm->sweep.wanted));
    json_object_object_add(json, "complete",
                           json_object_new_boolean(sm->stats.heavy_sweeps > 0 &&
                                                   !sm->sweep.incomplete &&
                                                   sm->election.state == MCSM_SM_MASTER_STATE));
    mcsm_add_guid(json, "port_guid", sm->own_guid);
    mcsm_add_number(json, "lid", sm->fabric->own_port ? sm->fabric->own_port->lid : 0);
    mcsm_add_text(json, "routing", mcsm_engine_name(sm->stats.engine));
    mcsm_add_number(json, "lanes", mcsm_sm_lanes(sm));
    mcsm_add_number(json, "lanes_needed", sm->stats.lanes_needed);
    mcsm_add_number(json, "left_out", sm->stats.left_out);
    mcsm_add_number(json, "hidden_switch_lids", sm->stats.hidden);
    mcsm_add_number(json, "closed_joints", sm->stats.closed_joints);
    mcsm_add_number(json, "contract_excess", sm->stats.excess);
    mcsm_add_number(json, "switches", sm->fabric->switch_count);
    mcsm_add_number(json, "end_nodes", sm->fabric->ca_count);
    mcsm_add_number(json, "links", sm->fabric->link_count);
    mcsm_add_number(json, "held_links", mcsm_health_held(daemon->health));
    mcsm_add_number(json, "polls", mcsm_health_polls(daemon->health));
    mcsm_add_number(json, "silent_ports", sm->stats.silent);
    mcsm_add_number(json, "vl_tables_differ", mcsm_vl_differing(sm->fabric));
    mcsm_add_number(json, "without_lid", sm->stats.without_lid);
    mcsm_add_number(json, "credit_loop", sm->stats.credit_loop);
    json_object_object_add(json, "foreign_managers", foreign_managers(sm));
    mcsm_add_number(json, "heavy_sweeps", sm->stats.heavy_sweeps);
    mcsm_add_number(json, "light_sweeps", sm->stats.light_sweeps);
    mcsm_add_number(json, "sweep_ms", sm->stats.sweep_ms);
    mcsm_add_number(json, "routing_ms", sm->stats.route_ms);
    mcsm_add_number(json, "lft_blocks", sm->stats.lft_blocks);
    mcsm_add_number(json, "mft_blocks", sm->stats.mft_blocks);
    mcsm_add_number(json, "smps_sent", mads->sent);
    mcsm_add_number(json, "smps_timed_out", mads->timed_out);
    mcsm_add_number(json, "sa_requests", sa->requests);
    mcsm_add_number(json, "groups", sa->groups);
    mcsm_add_number(json, "members", sa->members);
    mcsm_add_number(json, "standbys", mcsm_standbys_live(daemon->standbys));
    mcsm_add_number(json, "uptime", time(NULL) - daemon->started);
    mcsm_send_json(out, json);
}

static void nodes(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    struct json_object *json = json_object_new_array();
    struct mcsm_node *node, *next;

    (void)arguments;
    HASH_ITER(hh, daemon->sm->fabric->nodes, node, next) {
        for (int p = 0; p <= node->nports; p++) {
            const struct mcsm_port *port = &node->ports[p];
            struct json_object *entry;

            if (!mcsm_is_end_port(port) || !port->known) {
                continue;
            }
            entry = json_object_new_object();
            mcsm_add_text(entry, "type", mcsm_type_name(node));
            mcsm_add_guid(entry, "guid", node->guid);
            mcsm_add_guid(entry, "port_guid", port->guid);
            mcsm_add_number(entry, "port", p);
            mcsm_add_number(entry, "lid", port->lid);
            mcsm_add_number(entry, "ports", node->nports);
            mcsm_add_text(entry, "description", node->desc);
            json_object_array_add(json, entry);
        }
    }
    mcsm_send_json(out, json);
}

static const char *port_remark(const struct mcsm_port *port)
{
    if (port->held || (port->peer != NULL && port->peer->held)) {
        return "held";
    }
    if (port->drained) {
        return "drained";
    }
    if (port->border) {
        return "border";
    }
    if (port->vl_differs) {
        return "SL2VL or VLArb differ";
    }
    return port->silent ? "nothing answers" : port->failed ? "could not be set up" : "";
}

static void ports(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    struct json_object *json = json_object_new_array();
    struct mcsm_node *node, *next;

    (void)arguments;
    HASH_ITER(hh, daemon->sm->fabric->nodes, node, next) {
        for (int p = 1; p <= node->nports; p++) {
            const struct mcsm_port *port = &node->ports[p];
            struct json_object *entry;

            if (!port->known ||
                (port->state <= MCSM_STATE_DOWN && !port->border && !port->drained)) {
                continue;
            }
            entry = json_object_new_object();
            mcsm_add_guid(entry, "guid", node->guid);
            mcsm_add_number(entry, "port", p);
            mcsm_add_text(entry, "state", state_name(port->state));
            mcsm_add_number(entry, "mtu", 128 << mcsm_hi(port->info, MCSM_PI_MTU_HI));
            if (port->peer != NULL) {
                mcsm_add_guid(entry, "peer_guid", port->peer->node->guid);
                mcsm_add_number(entry, "peer_port", port->peer->num);
                mcsm_add_text(entry, "peer", port->peer->node->desc);
            }
            mcsm_add_text(entry, "remark", port_remark(port));
            mcsm_add_text(entry, "description", node->desc);
            json_object_array_add(json, entry);
        }
    }
    mcsm_send_json(out, json);
}

/* ---- routes ---- */

/* Prints how many LIDs leave through each port: LIDs of this cluster and of other clusters. */
static void routes(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const struct mcsm_fabric *fabric = daemon->sm->fabric;
    struct json_object *json = json_object_new_array();

    (void)arguments;
    for (int i = 0; i < fabric->switch_count; i++) {
        const struct mcsm_node *node = fabric->switches[i];
        unsigned own[256] = {0}, foreign[256] = {0};

        for (unsigned lid = 1; node->lft != NULL && lid < node->lft_size; lid++) {
            (fabric->by_lid[lid] ? own : foreign)[node->lft[lid]]++;
        }
        for (int p = 1; p <= node->nports; p++) {
            struct json_object *entry;

            if (own[p] + foreign[p] == 0) {
                continue;
            }
            entry = json_object_new_object();
            mcsm_add_guid(entry, "guid", node->guid);
            mcsm_add_number(entry, "port", p);
            mcsm_add_number(entry, "lids", own[p]);
            mcsm_add_number(entry, "foreign_lids", foreign[p]);
            mcsm_add_text(entry, "to",
                          node->ports[p].border ? "another cluster" :
                          node->ports[p].peer   ? node->ports[p].peer->node->desc :
                                                  "");
            json_object_array_add(json, entry);
        }
    }
    mcsm_send_json(out, json);
}

/* A port by its LID, by its GUID, or by the description of its node. */
static const struct mcsm_port *find_port(const struct mcsm_sm *sm, const char *word,
                                         uint16_t *lid_p)
{
    uint64_t number = 0;
    struct mcsm_node *node, *next;
    const struct mcsm_port *port = NULL;

    *lid_p = 0;
    if (mcsm_parse_number(word, 1, MCSM_LID_MAX, &number) == 0) {
        *lid_p = number;
        return mcsm_fabric_by_lid(sm->fabric, number);
    }
    if (mcsm_parse_guid(word, &number) == 0) {
        port = mcsm_fabric_find_port(sm->fabric, number);
    } else {
        HASH_ITER(hh, sm->fabric->nodes, node, next) {
            for (int i = 0; i <= node->nports && strcmp(node->desc, word) == 0 && !port; i++) {
                if (node->ports[i].lid != 0) {
                    port = &node->ports[i];
                }
            }
        }
    }
    if (port != NULL) {
        *lid_p = port->lid;
    }
    for (size_t i = 0; port == NULL && *lid_p == 0 && i < sm->config->neighbour_count; i++) {
        *lid_p = mcsm_lid_db_find(&sm->config->neighbours[i].db, number);
    }
    return port;
}

static void add_hop(void *arg, const struct mcsm_port *port)
{
    struct json_object *entry = json_object_new_object();

    mcsm_add_guid(entry, "guid", port->node->guid);
    mcsm_add_text(entry, "description", port->node->desc);
    mcsm_add_number(entry, "out_port", port->num);
    json_object_array_add(arg, entry);
}

static const char *neighbour_of(const struct mcsm_config *config, const struct mcsm_port *port)
{
    const struct mcsm_border *border = mcsm_config_border(config, port->node->guid, port->num);

    return border != NULL ? config->neighbours[border->neighbour].name : "another cluster";
}

static void path(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *from_word = arguments[0], *to_word = arguments[1];
    const struct mcsm_sm *sm = daemon->sm;
    uint16_t from_lid, to_lid;
    const struct mcsm_port *from = find_port(sm, from_word, &from_lid), *left;
    const struct mcsm_port *to = find_port(sm, to_word, &to_lid);
    const char *reason;
    struct json_object *json, *hops;
    int count;

    if (from == NULL || to_lid == 0) {
        fprintf(out,
                "error there is no LID, port GUID or node description \"%s\" in this cluster\n",
                from == NULL ? from_word : to_word);
        return;
    }
    json = json_object_new_object();
    hops = json_object_new_array();
    count = mcsm_sa_walk(sm, from, to_lid, add_hop, hops, &left, &reason);
    mcsm_add_text(json, "from", from->node->desc);
    mcsm_add_number(json, "from_lid", from->lid);
    mcsm_add_text(json, "to", to ? to->node->desc : "");
    mcsm_add_number(json, "to_lid", to_lid);
    mcsm_add_number(json, "hops", count);
    json_object_object_add(json, "path", hops);
    if (left != NULL) {
        mcsm_add_text(json, "leaves_to", neighbour_of(sm->config, left));
    }
    if (reason != NULL) {
        mcsm_add_text(json, "broken", reason);
    }
    mcsm_send_json(out, json);
}

/* ---- why ---- */

static void why_foreign(const struct mcsm_sm *sm, uint16_t lid, struct json_object *json)
{
    const struct mcsm_config *config = sm->config;
    char text[200];

    for (size_t i = 0; i < config->neighbour_count; i++) {
        const struct mcsm_neighbour *neighbour = &config->neighbours[i];

        if (!mcsm_range_has(neighbour->lids, lid)) {
            continue;
        }
        snprintf(text, sizeof(text),
                 "LID of cluster %s, reached through %s; leaves by the transit "
                 "port that this LID was given among those that are up",
                 neighbour->name, config->neighbours[neighbour->via].name);
        mcsm_add_text(json, "reason", text);
        return;
    }
    mcsm_add_text(json, "reason", "no cluster has this LID: it is dropped");
}

static void why(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const struct mcsm_sm *sm = daemon->sm;
    struct json_object *json, *list;
    uint64_t lid;

    if (mcsm_parse_number(arguments[0], 1, MCSM_LID_MAX, &lid) < 0) {
        fprintf(out, "error why needs a LID, 1 to 49151\n");
        return;
    }
    json = json_object_new_object();
    list = json_object_new_array();
    const struct mcsm_port *port = mcsm_fabric_by_lid(sm->fabric, lid);
    mcsm_add_number(json, "lid", lid);
    if (port != NULL) {
        mcsm_add_guid(json, "port_guid", port->guid);
        mcsm_add_text(json, "node", port->node->desc);
        mcsm_add_text(json, "lid_from",
                      sm->config->db.count ? "the LID database" :
                                             "the range of the cluster, kept by GUID");
        mcsm_add_text(
            json, "reason",
            sm->stats.engine == MCSM_ENGINE_UPDN ?
                "up/down: never up after down; of the shortest such ways the least loaded" :
            sm->stats.engine == MCSM_ENGINE_DOR ?
                "dor: of the shortest ways the one in the lowest dimension" :
                "minhop: of the shortest ways the least loaded");
    } else {
        why_foreign(sm, lid, json);
    }
    for (int i = 0; i < sm->fabric->switch_count; i++) {
        const struct mcsm_node *node = sm->fabric->switches[i];
        uint8_t out_port = node->lft && lid < node->lft_size ? node->lft[lid] : MCSM_DROP;
        struct json_object *entry = json_object_new_object();

        mcsm_add_guid(entry, "guid", node->guid);
        mcsm_add_text(entry, "description", node->desc);
        mcsm_add_number(entry, "out_port", out_port == MCSM_DROP ? -1 : out_port);
        json_object_array_add(list, entry);
    }
    json_object_object_add(json, "switches", list);
    mcsm_send_json(out, json);
}

/* ---- orders ---- */

static void order_drain(struct mcsm_daemon *daemon, const char *word, bool on, FILE *out)
{
    uint64_t guid;
    uint8_t port;
    struct json_object *json;

    if (mcsm_parse_guid_port(word, &guid, &port) < 0) {
        fprintf(out, "error expected GUID/PORT, such as 0x0002c90200410a28/17\n");
        return;
    }
    if (daemon->sm->election.state == MCSM_SM_STANDBY_STATE) {
        fprintf(out,
                "error this manager is a standby: give the order to the master 0x%016lx, "
                "which sends it to its standbys\n",
                daemon->sm->election.master_guid);
        return;
    }
    if (mcsm_sm_drain(daemon->sm, guid, port, on) < 0) {
        fprintf(out, "error %s is %s\n", word, on ? "not in this cluster" : "not drained");
        return;
    }
    json = json_object_new_object();
    mcsm_add_text(json, on ? "drained" : "undrained", word);
    mcsm_send_json(out, json);
}

static void drain(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    order_drain(daemon, arguments[0], true, out);
}

static void undrain(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    order_drain(daemon, arguments[0], false, out);
}

static void reroute(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    mcsm_console_resweep(daemon, arguments, out); /* without a kind: heavy */
}

/* ---- texts ---- */

static void dump_lft(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    (void)arguments;
    fputs("text\n", out);
    mcsm_dump_lft(daemon->sm, out);
}

static void dump_mft(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    (void)arguments;
    fputs("text\n", out);
    mcsm_dump_mft(daemon->sm, out);
}

static void dump_fabric(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    (void)arguments;
    fputs("text\n", out);
    mcsm_dump_fabric(daemon->sm, out);
}

static void page(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    (void)arguments;
    fputs("text\n", out);
    mcsm_page(daemon->sm, daemon->health, out);
}

static void metrics(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    (void)arguments;
    fputs("text\n", out);
    mcsm_metrics(daemon, out);
}

static const struct mcsm_command commands[] = {
#define COMMAND(name, keyword, arguments, help, run) {name, keyword, arguments, help, run},
#define HEADING(text)                                {NULL, NULL, NULL, text, NULL},
#include "command_list.h"
#undef COMMAND
#undef HEADING
};

void mcsm_ctl_command(struct mcsm_daemon *daemon, char *line, FILE *out)
{
    char text[MAX_WORDS][160];
    const char *words[MAX_WORDS], *arguments[MCSM_COMMAND_ARGUMENTS], *rest = line;
    const struct mcsm_command *command;
    int count = 0;

    /* Tabs separate, since descriptions of nodes have spaces. */
    while (count < MAX_WORDS && mcsm_next_word(&rest, "\t", text[count], sizeof(text[count]))) {
        words[count] = text[count];
        count++;
    }
    command =
        mcsm_command_find(commands, sizeof(commands) / sizeof(*commands), words, count, arguments);
    if (command == NULL) {
        fprintf(out, "error unknown command, or a wrong number of arguments\n");
        return;
    }
    command->run(daemon, arguments, out);
}
