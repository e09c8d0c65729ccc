#include "console.h"

#include "answer.h"
#include "base/text.h"
#include "sa/rate.h"

#include <math.h>
#include <regex.h>

/* ---- querylid ---- */

void mcsm_console_querylid(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *word = arguments[0];
    const struct mcsm_port *port;
    struct json_object *json;
    uint64_t lid;

    if (mcsm_parse_number(word, 1, MCSM_LID_MAX, &lid) < 0) {
        fprintf(out, "error querylid needs a LID, 1 to 49151\n");
        return;
    }
    port = mcsm_fabric_by_lid(daemon->sm->fabric, lid);
    if (port == NULL) {
        fprintf(out, "error LID %lu is not in this cluster\n", lid);
        return;
    }
    json = json_object_new_object();
    mcsm_add_number(json, "lid", lid);
    mcsm_add_number(json, "base_lid", port->lid);
    mcsm_add_number(json, "lmc", port->info[MCSM_PI_LMC] & 7);
    mcsm_add_text(json, "type", mcsm_type_name(port->node));
    mcsm_add_guid(json, "guid", port->node->guid);
    mcsm_add_guid(json, "port_guid", port->guid);
    mcsm_add_number(json, "port", port->num);
    mcsm_add_text(json, "description", port->node->desc);
    if (port->peer != NULL) {
        mcsm_add_guid(json, "peer_guid", port->peer->node->guid);
        mcsm_add_number(json, "peer_port", port->peer->num);
        mcsm_add_text(json, "peer", port->peer->node->desc);
    }
    mcsm_send_json(out, json);
}

/* ---- portstatus ---- */

static int lanes_of(uint8_t width)
{
    return mcsm_link_speed(width, 1, 0) / 2500;
}

static void bump(struct json_object *counts, const char *key)
{
    struct json_object *old = NULL;

    json_object_object_get_ex(counts, key, &old);
    mcsm_add_number(counts, key, (old ? json_object_get_int64(old) : 0) + 1);
}

/* Returns a remark if the link is slower than both ends allow, else NULL. */
static const char *reduced(const struct mcsm_port *port)
{
    enum { SPEED_SUPPORTED_HI = 32, EXTENDED_LO = 62 };
    const uint8_t *a = port->info, *b = port->peer ? port->peer->info : port->info;
    unsigned able =
        mcsm_link_speed(1, mcsm_hi(a, SPEED_SUPPORTED_HI) & mcsm_hi(b, SPEED_SUPPORTED_HI),
                        mcsm_lo(a, EXTENDED_LO) & mcsm_lo(b, EXTENDED_LO));
    unsigned speed = mcsm_link_speed(1, mcsm_hi(a, MCSM_PI_SPEED_ACTIVE_HI),
                                     mcsm_hi(a, MCSM_PI_SPEED_EXT_ACTIVE_HI));

    if (lanes_of(a[MCSM_PI_WIDTH_ACTIVE]) <
        lanes_of(a[MCSM_PI_WIDTH_SUPPORTED] & b[MCSM_PI_WIDTH_SUPPORTED])) {
        return "below its width";
    }
    return speed < able ? "below its speed" : NULL;
}

static void count_port(const struct mcsm_port *port, struct json_object *counts,
                       struct json_object *list)
{
    static const char *const states[] = {"down", "down", "init", "armed", "active"};
    enum { PHYS_DISABLED = 3 };
    const char *remark;
    char key[32];
    struct json_object *entry;

    bump(counts, "ports");
    bump(counts, port->state <= MCSM_STATE_ACTIVE ? states[port->state] : "other");
    if (port->phys == PHYS_DISABLED) {
        bump(counts, "disabled");
    }
    if (port->state < MCSM_STATE_INIT) {
        return;
    }
    snprintf(key, sizeof(key), "width_%dx", lanes_of(port->info[MCSM_PI_WIDTH_ACTIVE]));
    bump(counts, key);
    snprintf(key, sizeof(key), "gbps_per_lane_%.4g",
             mcsm_link_speed(1, mcsm_hi(port->info, MCSM_PI_SPEED_ACTIVE_HI),
                             mcsm_hi(port->info, MCSM_PI_SPEED_EXT_ACTIVE_HI)) /
                 1e3);
    bump(counts, key);
    remark = reduced(port);
    if (remark != NULL) {
        entry = json_object_new_object();
        mcsm_add_guid(entry, "guid", port->node->guid);
        mcsm_add_number(entry, "port", port->num);
        mcsm_add_text(entry, "remark", remark);
        mcsm_add_text(entry, "description", port->node->desc);
        json_object_array_add(list, entry);
    }
}

void mcsm_console_portstatus(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *type = arguments[0];
    struct json_object *counts, *list;
    struct mcsm_node *node, *next;

    if (type[0] != '\0' && strcmp(type, "ca") != 0 && strcmp(type, "switch") != 0 &&
        strcmp(type, "router") != 0) {
        fprintf(out, "error portstatus ca, switch or router; without a word: all\n");
        return;
    }
    counts = json_object_new_object();
    list = json_object_new_array();
    mcsm_add_number(counts, "ports", 0);
    HASH_ITER(hh, daemon->sm->fabric->nodes, node, next) {
        for (int p = 1; p <= node->nports; p++) {
            if (node->ports[p].known &&
                (type[0] == '\0' || strcmp(type, mcsm_type_name(node)) == 0)) {
                count_port(&node->ports[p], counts, list);
            }
        }
    }
    json_object_object_add(counts, "reduced", list);
    mcsm_send_json(out, counts);
}

/* ---- switchbalance ---- */

/* LIDs by port, for ports between switches: a port to a host always has the LIDs of the host. */
static void balance_of(const struct mcsm_node *node, const struct mcsm_fabric *fabric,
                       struct json_object *json)
{
    unsigned lids[256] = {0}, least = UINT32_MAX, most = 0, count = 0;
    double sum = 0, squares = 0;
    struct json_object *entry = json_object_new_object();

    for (unsigned lid = 1; node->lft != NULL && lid < node->lft_size; lid++) {
        lids[node->lft[lid]] += fabric->by_lid[lid] != NULL && !fabric->by_lid[lid]->node->sw;
    }
    for (int p = 1; p <= node->nports; p++) {
        const struct mcsm_port *port = &node->ports[p];

        if (!mcsm_port_usable(port) || !port->peer->node->sw) {
            continue;
        }
        count++;
        least = lids[p] < least ? lids[p] : least;
        most = lids[p] > most ? lids[p] : most;
        sum += lids[p];
        squares += (double)lids[p] * lids[p];
    }
    mcsm_add_guid(entry, "guid", node->guid);
    mcsm_add_number(entry, "ports_to_switches", count);
    mcsm_add_number(entry, "least_lids", count ? least : 0);
    mcsm_add_number(entry, "most_lids", most);
    mcsm_add_decimal(entry, "deviation",
                     count ? sqrt(squares / count - sum / count * sum / count) : 0);
    mcsm_add_text(entry, "description", node->desc);
    json_object_array_add(json, entry);
}

void mcsm_console_switchbalance(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *word = arguments[0];
    const struct mcsm_fabric *fabric = daemon->sm->fabric;
    uint64_t guid = 0;
    struct json_object *json;

    if (word[0] != '\0' &&
        (mcsm_parse_guid(word, &guid) < 0 || mcsm_fabric_find(fabric, guid) == NULL ||
         !mcsm_fabric_find(fabric, guid)->sw)) {
        fprintf(out, "error %s is not the GUID of a switch of this cluster\n", word);
        return;
    }
    json = json_object_new_array();
    for (int i = 0; i < fabric->switch_count; i++) {
        if (guid == 0 || fabric->switches[i]->guid == guid) {
            balance_of(fabric->switches[i], fabric, json);
        }
    }
    mcsm_send_json(out, json);
}

/* ---- orders ---- */

void mcsm_console_resweep(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *kind = arguments[0];
    bool light = strcmp(kind, "light") == 0;
    struct json_object *json;

    if (!light && kind[0] != '\0' && strcmp(kind, "heavy") != 0) {
        fprintf(out, "error resweep heavy or light\n");
        return;
    }
    if (light) {
        daemon->sm->sweep.next_light = 0;
    } else {
        mcsm_sm_sweep(daemon->sm);
    }
    json = json_object_new_object();
    mcsm_add_text(json, "sweep", light ? "light" : "heavy");
    mcsm_send_json(out, json);
}

void mcsm_console_loglevel(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *word = arguments[0];
    static const char *const names[] = {"error", "warn", "info", "debug"};
    enum mcsm_log_level level;
    struct json_object *json;

    (void)daemon;
    if (word[0] != '\0') {
        if (mcsm_log_parse_level(word, &level) < 0) {
            fprintf(out, "error loglevel error, warn, info or debug\n");
            return;
        }
        mcsm_log_set_level(level);
    }
    json = json_object_new_object();
    mcsm_add_text(json, "loglevel", names[mcsm_log_level()]);
    mcsm_send_json(out, json);
}

void mcsm_console_portguids(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *pattern = arguments[0];
    struct mcsm_node *node, *next;
    regex_t expression;

    if (pattern[0] == '\0' || regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
        fprintf(out, "error dump portguid needs a regular expression for descriptions of nodes\n");
        return;
    }
    fputs("text\n", out);
    HASH_ITER(hh, daemon->sm->fabric->nodes, node, next) {
        for (int p = 0; p <= node->nports; p++) {
            const struct mcsm_port *port = &node->ports[p];

            if (mcsm_is_end_port(port) && port->known &&
                regexec(&expression, node->desc, 0, NULL, 0) == 0) {
                fprintf(out, "0x%016lx\n", port->guid);
            }
        }
    }
    regfree(&expression);
}
