/*
 * Discovery: from our own port outwards, every answer leading to the next questions, never through
 * a border port (paper 001, figure 3).
 */
#include "phases.h"

#include "base/text.h"

#include <stdlib.h>

static void probe(struct mcsm_sm *sm, struct mcsm_port *through);

static bool is_known_silent(const struct mcsm_sm *sm, const struct mcsm_port *port)
{
    const struct mcsm_node *was = mcsm_fabric_find(sm->fabric, port->node->guid);

    return was != NULL && port->num <= was->nports && was->ports[port->num].silent;
}

static void lost(struct mcsm_sm *sm, const struct mcsm_node *node, const char *what)
{
    mcsm_warn(
        "%s (0x%016lx) does not answer %s: it is left out of this sweep as far as it needs it",
        node->desc[0] ? node->desc : "a node", node->guid, what);
    sm->sweep.incomplete = true;
}

static void got_desc(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_node *node = arg2;

    (void)arg;
    (void)status;
    if (mad == NULL) {
        return;
    }
    memcpy(node->raw_desc, mad + MCSM_SMP_BODY, sizeof(node->raw_desc));
    mcsm_clean_text(node->desc, sizeof(node->desc), node->raw_desc, sizeof(node->raw_desc));
}

static void got_guids(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_port *port = arg2;

    (void)arg;
    (void)status;
    /* The first entry repeats the port GUID; a difference means that another node answers now. */
    if (mad != NULL && mcsm_get64(mad, MCSM_SMP_BODY) != port->guid) {
        mcsm_warn("0x%016lx (%s): GUIDInfo says 0x%016lx", port->guid, port->node->desc,
                  mcsm_get64(mad, MCSM_SMP_BODY));
    }
}

static void ask(struct mcsm_sm *sm, struct mcsm_port *port, uint16_t attr, uint32_t mod,
                mcsm_answer_fn answer, void *arg2)
{
    struct mcsm_path path = mcsm_port_path(port);

    mcsm_smp(sm->mads, &path, MCSM_GET, attr, mod, NULL, answer, sm, arg2);
}

static void got_port(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_sm *sm = arg;
    struct mcsm_port *port = arg2;

    (void)status;
    if (mad == NULL) {
        lost(sm, port->node, "PortInfo");
        return;
    }
    memcpy(port->info, mad + MCSM_SMP_BODY, sizeof(port->info));
    port->known = true;
    port->state = mcsm_lo(port->info, MCSM_PI_STATE_LO);
    port->phys = mcsm_hi(port->info, MCSM_PI_PHYS_HI);
    if (port->node->sw && port->num == 0) {
        return;
    }
    if (!port->border && port->state > MCSM_STATE_DOWN && port->peer == NULL &&
        (port->node->sw || port == sm->next->own_port)) {
        probe(sm, port);
    }
    if (!port->node->sw) {
        mcsm_sm_read_pkeys(sm, port);
        ask(sm, port, MCSM_GUID_INFO, 0, got_guids, port);
    }
}

static void got_switch(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_sm *sm = arg;
    struct mcsm_node *node = arg2;

    (void)status;
    if (mad == NULL) {
        lost(sm, node, "SwitchInfo");
        return;
    }
    memcpy(node->sw_info, mad + MCSM_SMP_BODY, sizeof(node->sw_info));
    for (int i = 0; i <= node->nports; i++) {
        ask(sm, &node->ports[i], MCSM_PORT_INFO, i, got_port, &node->ports[i]);
    }
}

static void mark_ports(struct mcsm_sm *sm, struct mcsm_node *node)
{
    for (size_t i = 0; i < sm->config->border_count; i++) {
        const struct mcsm_border *border = &sm->config->borders[i];

        if (border->guid == node->guid && node->sw && border->port <= node->nports) {
            node->ports[border->port].border = true;
        }
    }
    mcsm_drains_mark(&sm->drains, node);
}

static struct mcsm_node *add_node(struct mcsm_sm *sm, const uint8_t *info,
                                  struct mcsm_port *through)
{
    struct mcsm_node *node = mcsm_fabric_add(sm->next, mcsm_get64(info, MCSM_NI_GUID),
                                             info[MCSM_NI_TYPE], info[MCSM_NI_PORTS]);

    if (node == NULL) {
        return NULL;
    }
    memcpy(node->info, info, sizeof(node->info));
    node->sys_guid = mcsm_get64(info, MCSM_NI_SYSTEM_GUID);
    if (through != NULL) {
        node->path = through->node->path;
        node->path.port[++node->path.hops] = through->num;
    }
    mark_ports(sm, node);
    return node;
}

static void connect_ports(struct mcsm_sm *sm, struct mcsm_port *a, struct mcsm_port *b)
{
    if ((a->peer != NULL && a->peer != b) || (b->peer != NULL && b->peer != a)) {
        const struct mcsm_port *other = b->peer ? b->peer : a->peer;

        mcsm_error(
            "0x%016lx (%s) port %u answers behind port %u of %s and behind port %u of %s: two "
            "nodes have one GUID, or a cable moved; only the first is used",
            b->node->guid, b->node->desc, b->num, a->num, a->node->desc, other->num,
            other->node->desc);
        b->node->moved = true;
        sm->sweep.incomplete = true;
        return;
    }
    a->peer = b;
    b->peer = a;
}

static bool is_sound(const uint8_t *info)
{
    uint8_t local = info[MCSM_NI_LOCAL_PORT];
    bool sw = info[MCSM_NI_TYPE] == 2;

    return info[MCSM_NI_TYPE] >= 1 && info[MCSM_NI_TYPE] <= 3 && info[MCSM_NI_PORTS] >= 1 &&
           info[MCSM_NI_PORTS] < 255 && local <= info[MCSM_NI_PORTS] && (sw || local > 0) &&
           mcsm_get64(info, MCSM_NI_GUID) != 0;
}

/* One GUID, but another kind of node. */
static bool is_same_kind(const struct mcsm_node *node, const uint8_t *info)
{
    return node->type == info[MCSM_NI_TYPE] && node->nports == info[MCSM_NI_PORTS];
}

/* The node behind the port does not answer, so it cannot be used; NULL: the manager's own node. */
static void name_silent(const struct mcsm_sm *sm, struct mcsm_port *through, const char *what)
{
    if (through == NULL) {
        mcsm_error("our own port does not answer: is the link there? (ibstat)");
        return;
    }
    through->silent = true;
    mcsm_log(is_known_silent(sm, through) ? MCSM_LOG_DEBUG : MCSM_LOG_WARN,
             "what is behind port %u of 0x%016lx (%s) %s", through->num, through->node->guid,
             through->node->desc, what);
}

static void name_twin(const struct mcsm_node *node, struct mcsm_port *through)
{
    mcsm_error(
        "two nodes have the GUID 0x%016lx: one is %s; the other one, behind port %u of %s, is "
        "left out",
        node->guid, node->desc, through ? through->num : 0,
        through ? through->node->desc : "our own");
    if (through) {
        through->silent = true;
    }
}

/* Sends the requests for a new node and port. */
static void ask_new(struct mcsm_sm *sm, struct mcsm_node *node, struct mcsm_port *port,
                    const uint8_t *info, bool is_new)
{
    struct mcsm_port *first = node->sw ? &node->ports[0] : port;

    if (is_new && node->sw) {
        first->guid = mcsm_get64(info, MCSM_NI_PORT_GUID);
        ask(sm, first, MCSM_SWITCH_INFO, 0, got_switch, node);
    }
    if (is_new) {
        ask(sm, first, MCSM_NODE_DESC, 0, got_desc, node);
    }
    if (!node->sw && !port->known && !port->probed) {
        port->probed = true;
        port->guid = mcsm_get64(info, MCSM_NI_PORT_GUID);
        ask(sm, port, MCSM_PORT_INFO, port->num, got_port, port);
    }
}

static void got_node(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_port *through = arg2; /* NULL: our own node */
    const uint8_t *info = mad ? mad + MCSM_SMP_BODY : NULL;
    struct mcsm_sm *sm = arg;
    struct mcsm_node *node;
    struct mcsm_port *port;
    bool is_new;

    if (info == NULL || !is_sound(info)) {
        name_silent(sm, through,
                    info   ? "sends damaged NodeInfo" :
                    status ? "refuses to answer" :
                             "does not answer (is its M_Key another one?)");
        return;
    }
    node = mcsm_fabric_find(sm->next, mcsm_get64(info, MCSM_NI_GUID));
    if (node != NULL && !is_same_kind(node, info)) {
        name_twin(node, through);
        return;
    }
    is_new = node == NULL;
    if (is_new) {
        node = add_node(sm, info, through);
    }
    if (node == NULL) {
        return;
    }
    port = &node->ports[info[MCSM_NI_LOCAL_PORT]];
    if (through == NULL) {
        sm->next->own_port = port;
    } else {
        connect_ports(sm, through, port);
    }
    ask_new(sm, node, port, info, is_new);
}

static void probe(struct mcsm_sm *sm, struct mcsm_port *through)
{
    struct mcsm_path path = through->node->path;

    if (path.hops >= MCSM_MAX_HOPS) {
        mcsm_warn("0x%016lx is %u hops away, and directed routes go no farther",
                  through->node->guid, path.hops);
        return;
    }
    through->probed = true;
    path.port[++path.hops] = through->num;
    mcsm_smp(sm->mads, &path, MCSM_GET, MCSM_NODE_INFO, 0, NULL, got_node, sm, through);
}

void mcsm_sm_discover(struct mcsm_sm *sm)
{
    struct mcsm_path here = {.hops = 0};

    mcsm_fabric_free(sm->next);
    sm->next = mcsm_fabric_new();
    if (sm->next == NULL) {
        mcsm_error("out of memory: the sweep is put off");
        return;
    }
    mcsm_sweep_begin(&sm->sweep, mcsm_now());
    mcsm_smp(sm->mads, &here, MCSM_GET, MCSM_NODE_INFO, 0, NULL, got_node, sm, NULL);
}

static void check_borders(const struct mcsm_sm *sm)
{
    for (size_t i = 0; i < sm->config->border_count; i++) {
        const struct mcsm_border *border = &sm->config->borders[i];
        const struct mcsm_node *node = mcsm_fabric_find(sm->next, border->guid);

        if (node == NULL) {
            mcsm_warn("%s:%d: the border switch 0x%016lx is not reached", sm->config->path,
                      border->line, border->guid);
        } else if (!node->sw || border->port > node->nports) {
            mcsm_error("%s:%d: 0x%016lx has no switch port %u", sm->config->path, border->line,
                       border->guid, border->port);
        }
        if (mcsm_fabric_find(sm->next, border->peer_guid) != NULL) {
            mcsm_error("%s:%d: the switch 0x%016lx of cluster %s was discovered inside of this "
                       "cluster: a link to it is missing in [border]",
                       sm->config->path, border->line, border->peer_guid,
                       sm->config->neighbours[border->neighbour].name);
        }
    }
}

void mcsm_sm_discovered(struct mcsm_sm *sm)
{
    struct mcsm_node *node, *next;

    if (mcsm_fabric_index(sm->next) < 0) {
        return;
    }
    check_borders(sm);
    sm->stats.silent = 0;
    HASH_ITER(hh, sm->next->nodes, node, next) {
        for (int i = 1; i <= node->nports; i++) {
            sm->stats.silent += node->ports[i].silent;
        }
    }
}
