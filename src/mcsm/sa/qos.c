#include "qos.h"

#include "part.h"

#include <fnmatch.h>

static bool has_pkey_of(const struct mcsm_spans *spans, const struct mcsm_port *port)
{
    for (unsigned i = 0; i < port->pkey_count && spans->count > 0; i++) {
        if ((port->pkeys[i] & 0x7fff) != 0 && mcsm_spans_have(spans, port->pkeys[i] & 0x7fff)) {
            return true;
        }
    }
    return false;
}

static bool is_named(const struct mcsm_port_group *group, const struct mcsm_port *port)
{
    for (size_t i = 0; i < group->node_count; i++) {
        const struct mcsm_node_pattern *node = &group->nodes[i];

        if ((node->port == 0 || node->port == port->num) &&
            fnmatch(node->text, port->node->desc, 0) == 0) {
            return true;
        }
    }
    return false;
}

/* The LIDs of a port with LMC belong to the port: its base LID counts. */
static bool is_member(const struct mcsm_sm *sm, const struct mcsm_port_group *group,
                      const struct mcsm_path_end *end)
{
    const struct mcsm_port *port = end->port;

    if (mcsm_spans_have(&group->guids, end->guid) ||
        mcsm_spans_have(&group->lids, port != NULL ? port->lid : end->lid)) {
        return true;
    }
    return port != NULL && ((port->node->type < 4 && group->types[port->node->type]) ||
                            (group->self && port == sm->fabric->own_port) ||
                            is_named(group, port) || has_pkey_of(&group->pkeys, port));
}

static bool is_in(const struct mcsm_sm *sm, const struct mcsm_group_refs *refs,
                  const struct mcsm_path_end *end)
{
    for (size_t i = 0; i < refs->count; i++) {
        if (is_member(sm, &sm->config->qos.groups[refs->list[i].group], end)) {
            return true;
        }
    }
    return refs->count == 0;
}

static bool matches(const struct mcsm_sm *sm, const struct mcsm_rule *rule,
                    const struct mcsm_qos_path *path)
{
    if (rule->service_ids.count > 0 &&
        !(path->has_service && mcsm_spans_have(&rule->service_ids, path->service_id))) {
        return false;
    }
    if (rule->classes.count > 0 &&
        !(path->has_class && mcsm_spans_have(&rule->classes, path->qos_class))) {
        return false;
    }
    if (rule->pkeys.count > 0 && !mcsm_spans_have(&rule->pkeys, path->pkey & 0x7fff)) {
        return false;
    }
    return is_in(sm, &rule->sources, path->from) && is_in(sm, &rule->destinations, path->to);
}

const struct mcsm_rule *mcsm_qos_find(const struct mcsm_sm *sm, const struct mcsm_qos_path *path)
{
    const struct mcsm_qos *qos = &sm->config->qos;

    for (size_t i = 0; i < qos->rule_count; i++) {
        if (matches(sm, &qos->rules[i], path)) {
            return &qos->rules[i];
        }
    }
    return NULL;
}

bool mcsm_qos_may_choose(const struct mcsm_config *config, uint8_t sl)
{
    uint8_t lane = config->sl2vl[sl];

    return config->qos.rule_count == 0 && lane != 15 &&
           (config->multicast_sl == 0 || lane != config->sl2vl[config->multicast_sl]);
}
