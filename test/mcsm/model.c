#include "model.h"

#include "sm/keys.h"
#include "standby/drains.h"

#include <stdlib.h>
#include <unistd.h>

void model_start(struct model *model)
{
    memset(model, 0, sizeof(*model));
    model->seed = 1;
}

int model_add(struct model *model, uint64_t guid, bool sw, uint8_t nports)
{
    struct model_node *node = &model->nodes[model->count];

    node->guid = guid;
    node->sw = sw;
    node->nports = nports;
    memset(node->lft, MCSM_DROP, sizeof(node->lft));
    mcsm_put16(node->sw_info, MCSM_SI_LFT_CAP, MODEL_LIDS - 1);
    mcsm_put16(node->sw_info, MCSM_SI_MFT_CAP, MODEL_MLIDS);
    mcsm_put16(node->sw_info, MCSM_SI_PARTITION_CAP, 64);
    for (int i = 0; i <= nports; i++) {
        uint8_t *info = node->ports[i].info;

        node->ports[i].peer = -1;
        info[MCSM_PI_STATE_LO] = sw && i == 0 ? MCSM_STATE_ACTIVE : MCSM_STATE_DOWN;
        info[MCSM_PI_PHYS_HI] = 2 << 4;
        info[MCSM_PI_MTU_CAP_LO] = 5;
        info[MCSM_PI_VL_CAP_HI] = 4 << 4;
        info[MCSM_PI_ARB_LOW_CAP] = info[MCSM_PI_ARB_HIGH_CAP] = 8;
        info[MCSM_PI_WIDTH_SUPPORTED] = 3;
        info[MCSM_PI_WIDTH_ACTIVE] = 2;
        mcsm_put16(node->ports[i].pkeys, 0, 0xffff);
    }
    return model->count++;
}

static void set_state(struct model_node *node, uint8_t port, uint8_t state)
{
    mcsm_put_lo(node->ports[port].info, MCSM_PI_STATE_LO, state);
    mcsm_put_hi(node->ports[port].info, MCSM_PI_PHYS_HI, state > 1 ? MCSM_PHYS_LINK_UP : 2);
    node->sw_info[MCSM_SI_LIFE] |= MCSM_SI_STATE_CHANGE;
}

void model_link(struct model *model, int a, uint8_t a_port, int b, uint8_t b_port)
{
    model->nodes[a].ports[a_port].peer = b;
    model->nodes[a].ports[a_port].peer_port = b_port;
    model->nodes[b].ports[b_port].peer = a;
    model->nodes[b].ports[b_port].peer_port = a_port;
    set_state(&model->nodes[a], a_port, MCSM_STATE_INIT);
    set_state(&model->nodes[b], b_port, MCSM_STATE_INIT);
}

void model_two_switches(struct model *model)
{
    for (int i = 0; i < 2; i++) {
        model_add(model, 0x100 + i, true, 8);
    }
    for (int i = 0; i < 4; i++) {
        model_add(model, 0x200 + 16 * i, false, 1);
        model_link(model, i % 2, 1 + i / 2, 2 + i, 1);
    }
    model_link(model, 0, 5, 1, 5);
}

void model_unlink(struct model *model, int a, uint8_t a_port)
{
    int b = model->nodes[a].ports[a_port].peer;
    uint8_t b_port = model->nodes[a].ports[a_port].peer_port;

    model->nodes[a].ports[a_port].peer = -1;
    model->nodes[b].ports[b_port].peer = -1;
    set_state(&model->nodes[a], a_port, MCSM_STATE_DOWN);
    set_state(&model->nodes[b], b_port, MCSM_STATE_DOWN);
}

/* ---- a node's answer to an SMP ---- */

static void node_info(const struct model_node *node, uint8_t port, uint8_t *body)
{
    memset(body, 0, 64);
    body[0] = body[1] = 1;
    body[MCSM_NI_TYPE] = node->sw ? 2 : 1;
    body[MCSM_NI_PORTS] = node->nports;
    mcsm_put64(body, MCSM_NI_SYSTEM_GUID, node->guid);
    mcsm_put64(body, MCSM_NI_GUID, node->guid);
    mcsm_put64(body, MCSM_NI_PORT_GUID, node->guid + (node->sw ? 0 : port));
    mcsm_put16(body, MCSM_NI_PARTITION_CAP, MODEL_PKEYS);
    body[MCSM_NI_LOCAL_PORT] = port;
}

static void port_info(struct model_node *node, uint8_t port, bool set, uint8_t *body)
{
    uint8_t *info = node->ports[port].info, old[64], state = mcsm_lo(body, MCSM_PI_STATE_LO);

    if (set) {
        memcpy(old, info, 64);
        node->asked_again |= (body[MCSM_PI_SUBNET_TIMEOUT] & MCSM_CLIENT_REREGISTER) != 0;
        memcpy(info, body, 64);
        memcpy(info + MCSM_PI_CAPABILITY, old + MCSM_PI_CAPABILITY, 4);
        info[MCSM_PI_WIDTH_SUPPORTED] = old[MCSM_PI_WIDTH_SUPPORTED];
        info[MCSM_PI_WIDTH_ACTIVE] = old[MCSM_PI_WIDTH_ACTIVE];
        info[MCSM_PI_MTU_CAP_LO] = old[MCSM_PI_MTU_CAP_LO];
        info[MCSM_PI_PHYS_HI] = old[MCSM_PI_PHYS_HI];
        mcsm_put_lo(info, MCSM_PI_STATE_LO, state ? state : mcsm_lo(old, MCSM_PI_STATE_LO));
        if (!node->sw || port == 0) {
            node->m_key = mcsm_get64(body, MCSM_PI_MKEY);
        }
    }
    memcpy(body, info, 64);
}

static void switch_info(struct model_node *node, bool set, uint8_t *body)
{
    if (set) {
        uint8_t changed = node->sw_info[MCSM_SI_LIFE] & MCSM_SI_STATE_CHANGE;

        if (body[MCSM_SI_LIFE] & MCSM_SI_STATE_CHANGE) {
            changed = 0;
        }
        memcpy(node->sw_info + MCSM_SI_LFT_TOP, body + MCSM_SI_LFT_TOP, 2);
        memcpy(node->sw_info + MCSM_SI_MFT_TOP, body + MCSM_SI_MFT_TOP, 2);
        node->sw_info[MCSM_SI_LIFE] = (body[MCSM_SI_LIFE] & 0xf8) | changed;
    }
    memcpy(body, node->sw_info, 64);
}

static bool tables(struct model_node *node, uint16_t attr, uint32_t mod, bool set, uint8_t *body)
{
    unsigned block = mod & 0x1ff;

    if (attr == MCSM_LFT && (mod + 1) * 64 <= MODEL_LIDS) {
        if (set) {
            memcpy(node->lft + mod * 64, body, 64);
        }
        memcpy(body, node->lft + mod * 64, 64);
        return true;
    }
    if (attr != MCSM_MFT || (block + 1) * 32 > MODEL_MLIDS) {
        return false;
    }
    for (int i = 0; i < 32 && mod >> 28 == 0; i++) {
        if (set) {
            node->mft[block * 32 + i] = mcsm_get16(body, 2 * i);
        }
        mcsm_put16(body, 2 * i, node->mft[block * 32 + i]);
    }
    return true;
}

static bool pkeys(struct model_node *node, unsigned port, unsigned block, bool set, uint8_t *body)
{
    if (port > node->nports || (block + 1) * 32 > MODEL_PKEYS) {
        return false;
    }
    if (set) {
        memcpy(node->ports[port].pkeys + block * 64, body, 64);
    }
    memcpy(body, node->ports[port].pkeys + block * 64, 64);
    return true;
}

/* SL2VL or VLArb of an output port. */
static bool lane_table(struct model_node *node, uint8_t in_port, const uint8_t *mad, uint8_t *body)
{
    bool set = mad[MCSM_MAD_METHOD] == MCSM_SET,
         sl2vl = mcsm_get16(mad, MCSM_MAD_ATTR) == MCSM_SL2VL;
    uint32_t mod = mcsm_get32(mad, MCSM_MAD_MOD);
    unsigned out = node->sw ? mod & 0xff : in_port, block = mod >> 16;
    unsigned from = node->sw ? mod >> 8 & 0xff : 0;

    if (out > node->nports || from > node->nports || (!sl2vl && (block < 1 || block > 4))) {
        return false;
    }
    uint8_t *table = sl2vl ? node->ports[out].sl2vl[from] : node->ports[out].vlarb[block - 1];
    node->lane_sets += set;
    if (set && !node->fixed_lanes) {
        memcpy(table, body, sl2vl ? 8 : 64);
    }
    memset(body, 0, 64);
    memcpy(body, table, sl2vl ? 8 : 64);
    return true;
}

/* False: refused. */
static bool handle(struct model_node *node, uint8_t in_port, const uint8_t *mad, uint8_t *body)
{
    bool set = mad[MCSM_MAD_METHOD] == MCSM_SET;
    uint32_t mod = mcsm_get32(mad, MCSM_MAD_MOD);

    switch (mcsm_get16(mad, MCSM_MAD_ATTR)) {
    case MCSM_NODE_INFO:
        node_info(node, in_port, body);
        return true;
    case MCSM_NODE_DESC:
        memset(body, 0, 64);
        snprintf((char *)body, 64, "%s-%lx", node->sw ? "switch" : "host", node->guid);
        return true;
    case MCSM_PORT_INFO:
        if (mod > node->nports) {
            return false;
        }
        port_info(node, mod, set, body);
        if (node->m_key != mcsm_get64(mad, MCSM_SMP_MKEY) && body[MCSM_PI_LMC] >> 6 > 0) {
            mcsm_put64(body, MCSM_PI_MKEY, 0);
        }
        return true;
    case MCSM_SM_INFO:
        return false; /* managers answer by themselves */
    case MCSM_SWITCH_INFO:
        switch_info(node, set, body);
        return node->sw;
    case MCSM_PKEY_TABLE:
        return pkeys(node, node->sw ? mod >> 16 : in_port, mod & 0xffff, set, body);
    case MCSM_GUID_INFO:
        memset(body, 0, 64);
        mcsm_put64(body, 0, node->guid + (node->sw ? 0 : in_port));
        return true;
    case MCSM_SL2VL:
    case MCSM_VLARB:
        return lane_table(node, in_port, mad, body);
    default:
        return node->sw && tables(node, mcsm_get16(mad, MCSM_MAD_ATTR), mod, set, body);
    }
}

/* M_Key and protection bits are on port 0 of a switch and on port 1 of a host. Levels 0 and 1 let
 * every manager read; levels 2 and 3 do not. */
static bool has_key(const struct model_node *node, const uint8_t *mad)
{
    const uint8_t *info = node->ports[node->sw ? 0 : 1].info;

    if (node->m_key == 0 || node->m_key == mcsm_get64(mad, MCSM_SMP_MKEY)) {
        return true;
    }
    return mad[MCSM_MAD_METHOD] != MCSM_SET && info[MCSM_PI_LMC] >> 6 < 2;
}

static void post(struct model_manager *manager, const struct mcsm_addr *from, const uint8_t *mad,
                 size_t length, bool error)
{
    struct model_packet *packet = calloc(1, sizeof(*packet) + length);

    if (packet == NULL) {
        abort();
    }
    packet->to = *from;
    packet->error = error;
    packet->length = length;
    memcpy(packet->mad, mad, length);
    *manager->inbox_end = packet;
    manager->inbox_end = &packet->next;
}

static bool happens(struct model *model, unsigned percent)
{
    return percent > 0 && (unsigned)rand_r(&model->seed) % 100 < percent;
}

/* Follow a directed route. The node, or -1. */
static int find_node(const struct model_manager *manager, const uint8_t *mad, uint8_t *in_port)
{
    const struct model *model = manager->model;
    int at = manager->host;

    *in_port = 1;
    for (int i = 1; i <= mad[MCSM_SMP_HOP_COUNT]; i++) {
        uint8_t out = mad[MCSM_SMP_PATH + i];
        int peer = out <= MODEL_PORTS ? model->nodes[at].ports[out].peer : -1;

        if (peer < 0) {
            return -1;
        }
        *in_port = model->nodes[at].ports[out].peer_port;
        at = peer;
    }
    return at;
}

/* SMInfo goes to the manager on that host, which answers through its own send_packet(). The host
 * number identifies the sender, in place of its LID. */
static void send_to_manager(struct model_manager *sender, int host, const uint8_t *mad)
{
    struct model_manager *receiver = sender->model->managers[host];
    struct mcsm_addr from = {.lid = 0xffff, .qpn = sender->host, .agent = mad[MCSM_MAD_CLASS]};

    if (mad[MCSM_MAD_METHOD] == MCSM_SET) {
        memcpy(sender->order, mad, MCSM_MAD_SIZE);
    }
    if (receiver == NULL || receiver->deaf) {
        from.qpn = host;
        post(sender, &from, mad, MCSM_MAD_SIZE, true);
        return;
    }
    post(receiver, &from, mad, MCSM_MAD_SIZE, false);
}

/* PerfMgtGet and PerfMgtSet of counters, by LID. */
static void send_poll(struct model_manager *manager, const struct mcsm_addr *to, const uint8_t *mad)
{
    struct model *model = manager->model;
    uint8_t answer[MCSM_MAD_SIZE], port = mad[MCSM_PM_DATA + MCSM_PM_PORT_SELECT];
    bool wide = mcsm_get16(mad, MCSM_MAD_ATTR) == MCSM_PORT_COUNTERS_EXTENDED;
    struct model_node *node = NULL;

    for (int i = 0; i < model->count; i++) {
        const uint8_t *info = model->nodes[i].ports[model->nodes[i].sw ? 0 : 1].info;

        if (mcsm_get16(info, MCSM_PI_LID) == to->lid) {
            node = &model->nodes[i];
        }
    }
    if (node == NULL || port > node->nports || happens(model, model->loss)) {
        post(manager, to, mad, MCSM_MAD_SIZE, true);
        return;
    }
    memcpy(answer, mad, sizeof(answer));
    answer[MCSM_MAD_METHOD] = MCSM_GET | MCSM_RESPONSE;
    if (wide && model->no_wide) {
        mcsm_put16(answer, MCSM_MAD_STATUS, 0x0c);
    } else if (mad[MCSM_MAD_METHOD] == MCSM_SET) {
        node->ports[port].counters[4] = node->ports[port].counters[5] = 0; /* the symbol errors */
    } else {
        memcpy(answer + MCSM_PM_DATA, wide ? node->ports[port].wide : node->ports[port].counters,
               64);
    }
    answer[MCSM_PM_DATA + MCSM_PM_PORT_SELECT] = port;
    post(manager, to, answer, sizeof(answer), false);
}

/* Registrations for a standby, by LID. The sender's LID is that of its host. */
static void send_state(struct model_manager *sender, const struct mcsm_addr *to, const uint8_t *mad)
{
    const struct model *model = sender->model;
    struct mcsm_addr from = *to;

    from.lid = mcsm_get16(model->nodes[sender->host].ports[1].info, MCSM_PI_LID);
    sender->state_sent++;
    for (int host = 0; host < model->count; host++) {
        if (mcsm_get16(model->nodes[host].ports[1].info, MCSM_PI_LID) == to->lid &&
            model->managers[host] != NULL && !model->managers[host]->deaf &&
            !happens(sender->model, model->loss)) {
            memcpy(sender->state_mad, mad, MCSM_MAD_SIZE);
            post(model->managers[host], &from, mad, MCSM_MAD_SIZE, false);
            return;
        }
    }
    if (!(mad[MCSM_MAD_METHOD] & MCSM_RESPONSE)) {
        post(sender, to, mad, MCSM_MAD_SIZE, true);
    }
}

static int send_packet(void *arg, const struct mcsm_addr *to, const uint8_t *mad, size_t length,
                       unsigned timeout)
{
    struct model_manager *manager = arg;
    struct model *model = manager->model;
    uint8_t answer[MCSM_MAD_SIZE], in_port;
    struct model_node *node;
    int at;

    (void)timeout;
    if (mad[MCSM_MAD_CLASS] == MCSM_CLASS_SA) {
        free(manager->answer);
        manager->answer = malloc(length);
        memcpy(manager->answer, mad, length);
        manager->answer_length = length;
        manager->answer_to = *to;
        manager->reports_sent += mad[MCSM_MAD_METHOD] == MCSM_REPORT;
        if ((mad[MCSM_MAD_METHOD] & MCSM_RESPONSE) && mcsm_get16(mad, MCSM_MAD_STATUS) == 0) {
            manager->confirmed[mcsm_get32(mad, MCSM_MAD_TID + 4) % MODEL_REQUESTS] = true;
        }
        return 0;
    }
    if (mad[MCSM_MAD_CLASS] == MCSM_CLASS_STATE) {
        send_state(manager, to, mad);
        return 0;
    }
    if (mad[MCSM_MAD_CLASS] == MCSM_CLASS_PERF) {
        send_poll(manager, to, mad);
        return 0;
    }
    manager->repressed += mad[MCSM_MAD_METHOD] == MCSM_TRAP_REPRESS;
    if (mcsm_get16(mad, MCSM_MAD_ATTR) == MCSM_SM_INFO && (mad[MCSM_MAD_METHOD] & MCSM_RESPONSE)) {
        memcpy(manager->sm_info, mad, MCSM_MAD_SIZE);
        if (to->lid == 0xffff && model->managers[to->qpn] != NULL) {
            post(model->managers[to->qpn], to, mad, MCSM_MAD_SIZE, false);
        }
        return 0;
    }
    if (mad[MCSM_MAD_CLASS] != MCSM_CLASS_SMP_DIRECT || (mad[MCSM_MAD_METHOD] & MCSM_RESPONSE)) {
        return 0;
    }
    at = find_node(manager, mad, &in_port);
    node = at < 0 ? NULL : &model->nodes[at];
    if (node != NULL) {
        node->smps++;
    }
    if (node == NULL || happens(model, model->loss) || !has_key(node, mad)) {
        if (node != NULL) {
            node->violations += !has_key(node, mad);
        }
        post(manager, to, mad, MCSM_MAD_SIZE, true);
        return 0;
    }
    if (mcsm_get16(mad, MCSM_MAD_ATTR) == MCSM_SM_INFO) {
        send_to_manager(manager, at, mad);
        return 0;
    }
    memcpy(answer, mad, sizeof(answer));
    if (!handle(node, in_port, mad, answer + MCSM_SMP_BODY)) {
        mcsm_put16(answer, MCSM_MAD_STATUS, 0x801c);
    } else {
        mcsm_put16(answer, MCSM_MAD_STATUS, 0x8000);
    }
    answer[MCSM_MAD_METHOD] = MCSM_GET | MCSM_RESPONSE;
    if (happens(model, model->mutate)) {
        for (int i = rand_r(&model->seed) % 8; i >= 0; i--) {
            answer[MCSM_MAD_ATTR + rand_r(&model->seed) % 112] = rand_r(&model->seed);
        }
    }
    post(manager, to, answer, sizeof(answer), false);
    return 0;
}

/* ---- managers ---- */

static void members(void *arg, uint16_t mlid, void (*leaf)(void *, uint64_t, bool), void *leaf_arg)
{
    struct model_manager *manager = arg;

    mcsm_sa_members(manager->sa, mlid, leaf, leaf_arg);
}

static void swept(void *arg)
{
    struct model_manager *manager = arg;

    mcsm_sa_swept(manager->sa);
    mcsm_health_swept(manager->health, mcsm_now() + manager->later);
}

static void end_port(void *arg, uint64_t guid, bool there)
{
    mcsm_sa_end_port(((struct model_manager *)arg)->sa, guid, there);
}

static void trap(void *arg, const uint8_t *notice)
{
    mcsm_sa_notice(((struct model_manager *)arg)->sa, notice);
}

static void event(void *arg, const struct mcsm_event *event)
{
    struct model_manager *manager = arg;

    manager->events++;
    snprintf(manager->event, sizeof(manager->event), "%s", event->name);
    snprintf(manager->event_log + strlen(manager->event_log),
             sizeof(manager->event_log) - strlen(manager->event_log), "%s ", event->name);
}

static void new_state(void *arg, uint8_t state)
{
    mcsm_sa_state(((struct model_manager *)arg)->sa, state);
}

static bool ready(void *arg, uint64_t guid)
{
    const struct model_manager *manager = arg;

    return !manager->waits || mcsm_standbys_ready(manager->standbys, guid);
}

static void drained(void *arg, uint64_t guid, uint8_t port, bool on)
{
    mcsm_drains_send(((struct model_manager *)arg)->standbys, guid, port, on);
}

struct model_manager *model_manager_new(struct model *model, int host, const char *text)
{
    struct model_manager *manager = calloc(1, sizeof(*manager));
    struct mcsm_sm_events events = {.arg = manager,
                                    .swept = swept,
                                    .end_port = end_port,
                                    .trap = trap,
                                    .members = members,
                                    .state = new_state,
                                    .event = event,
                                    .ready = ready,
                                    .drained = drained};
    char path[] = "/tmp/mcsm-model-XXXXXX";
    int fd = mkstemp(path);

    if (manager == NULL || fd < 0 || write(fd, text, strlen(text)) < 0) {
        abort();
    }
    close(fd);
    manager->config = mcsm_config_read(path, stderr);
    unlink(path);
    if (manager->config == NULL) {
        free(manager);
        return NULL;
    }
    if (mcsm_keys_complete(manager->config) < 0) {
        abort();
    }
    manager->model = model;
    model->managers[host] = manager;
    mcsm_put32(model->nodes[host].ports[1].info, MCSM_PI_CAPABILITY, MCSM_CAP_IS_SM);
    manager->host = host;
    manager->inbox_end = &manager->inbox;
    manager->smps = mcsm_mads_new(64, 100, 4, send_packet, manager);
    manager->reports = mcsm_mads_new(16, 100, 0, send_packet, manager);
    manager->sm = mcsm_sm_new(manager->config, manager->smps, model->nodes[host].guid + 1, &events);
    manager->standbys = mcsm_standbys_new(manager->sm, manager->reports);
    manager->sa = mcsm_sa_new(manager->sm, manager->reports, manager->standbys);
    manager->polls = mcsm_mads_new(64, 100, 1, send_packet, manager);
    manager->health = mcsm_health_new(manager->polls);
    mcsm_drains_offer(manager->standbys, manager->sm);
    mcsm_health_attach(manager->health, manager->sm, manager->standbys);
    return manager;
}

void model_manager_free(struct model_manager *manager)
{
    if (manager == NULL) {
        return;
    }
    manager->model->managers[manager->host] = NULL;
    mcsm_sa_free(manager->sa);
    mcsm_standbys_free(manager->standbys);
    mcsm_sm_free(manager->sm);
    mcsm_mads_free(manager->smps);
    mcsm_mads_free(manager->reports);
    mcsm_mads_free(manager->polls);
    mcsm_health_free(manager->health);
    mcsm_config_free(manager->config);
    while (manager->inbox != NULL) {
        struct model_packet *packet = manager->inbox;

        manager->inbox = packet->next;
        free(packet);
    }
    free(manager->answer);
    free(manager);
}

static void deliver(struct model_manager *manager, const struct mcsm_addr *from, const uint8_t *mad,
                    bool error)
{
    bool state = mad[MCSM_MAD_CLASS] == MCSM_CLASS_STATE;
    bool sa = mad[MCSM_MAD_CLASS] == MCSM_CLASS_SA || state;

    if (mad[MCSM_MAD_CLASS] == MCSM_CLASS_PERF) {
        mcsm_mads_receive(manager->polls, mad, error);
        return;
    }
    if (mcsm_mads_receive(sa ? manager->reports : manager->smps, mad, error)) {
        return;
    }
    if (state) {
        mcsm_standbys_receive(manager->standbys, from, mad);
    } else if (sa) {
        mcsm_sa_receive(manager->sa, from, mad, MCSM_MAD_SIZE);
    } else {
        mcsm_sm_receive(manager->sm, from, mad);
    }
}

static void take(struct model_manager *manager)
{
    struct model_packet *packet = manager->inbox;

    manager->inbox = packet->next;
    if (manager->inbox == NULL) {
        manager->inbox_end = &manager->inbox;
    }
    deliver(manager, &packet->to, packet->mad, packet->error);
    free(packet);
}

void model_deliver(struct model_manager *manager, const struct mcsm_addr *from, const uint8_t *mad)
{
    deliver(manager, from, mad, false);
}

static bool packets_wait(const struct model *model)
{
    for (int host = 0; host < model->count; host++) {
        if (model->managers[host] != NULL && model->managers[host]->inbox != NULL) {
            return true;
        }
    }
    return false;
}

void model_run(struct model_manager *manager, int rounds)
{
    struct model *model = manager->model;

    for (int i = 0; i < rounds; i++) {
        for (int host = 0; host < model->count; host++) {
            while (model->managers[host] != NULL && model->managers[host]->inbox != NULL) {
                take(model->managers[host]);
            }
        }
        mcsm_sm_run(manager->sm, mcsm_now());
        if (packets_wait(model)) {
            continue;
        }
        if (manager->sm->sweep.phase == MCSM_PHASE_IDLE) {
            return;
        }
        /* No answer will come for requests in flight: let them time out. */
        mcsm_mads_tick(manager->smps, mcsm_now() + 1000);
    }
}

void model_health(struct model_manager *manager, unsigned seconds)
{
    manager->later += seconds * 1000ULL;
    for (int i = 0; i < 2; i++) { /* asks, then judges the answers */
        mcsm_health_run(manager->health, mcsm_now() + manager->later);
        model_run(manager, 4000);
    }
}

int model_sa(struct model_manager *manager, uint16_t from_lid, uint8_t method, uint16_t attr,
             uint64_t mask, const uint8_t *data)
{
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SA, 2, method};
    struct mcsm_addr from = {.lid = from_lid, .qpn = 1, .agent = MCSM_CLASS_SA};

    mcsm_put16(mad, MCSM_MAD_ATTR, attr);
    mcsm_put64(mad, MCSM_SA_SM_KEY, manager->sa_key);
    mcsm_put64(mad, MCSM_SA_COMPONENTS, mask);
    if (data != NULL) {
        memcpy(mad + MCSM_SA_DATA, data, MCSM_SA_DATA_SIZE);
    }
    free(manager->answer);
    manager->answer = NULL;
    mcsm_sa_receive(manager->sa, &from, mad, sizeof(mad));
    return manager->answer ? mcsm_get16(manager->answer, MCSM_MAD_STATUS) : -1;
}

/* ---- packets ---- */

int model_route(const struct model *model, int from, uint16_t lid, int *hops)
{
    int at = from, steps = 0;

    for (; steps < MODEL_NODES; steps++) {
        const struct model_node *node = &model->nodes[at];
        uint8_t out = node->sw ? lid < MODEL_LIDS ? node->lft[lid] : MCSM_DROP : 1;

        if (mcsm_get16(node->ports[node->sw ? 0 : 1].info, MCSM_PI_LID) == lid) {
            break;
        }
        if (out == 0 || out > node->nports || node->ports[out].peer < 0 ||
            mcsm_lo(node->ports[out].info, MCSM_PI_STATE_LO) != MCSM_STATE_ACTIVE ||
            (at != from && !node->sw)) {
            return -1;
        }
        at = node->ports[out].peer;
    }
    if (hops != NULL) {
        *hops = steps;
    }
    return steps < MODEL_NODES ? at : -1;
}

static int spread(const struct model *model, int at, uint8_t in_port, uint16_t mlid, int *received,
                  int depth)
{
    const struct model_node *node = &model->nodes[at];

    if (depth > MODEL_NODES) {
        return -1;
    }
    received[at]++;
    for (int p = 1; node->sw && p <= node->nports; p++) {
        if (p == in_port || !(node->mft[mlid - MCSM_MLID_MIN] >> p & 1) ||
            node->ports[p].peer < 0) {
            continue;
        }
        if (spread(model, node->ports[p].peer, node->ports[p].peer_port, mlid, received,
                   depth + 1) < 0) {
            return -1;
        }
    }
    return 0;
}

bool model_multicast(const struct model *model, int from, uint16_t mlid, int *received)
{
    memset(received, 0, MODEL_NODES * sizeof(*received));
    return spread(model, model->nodes[from].ports[1].peer, model->nodes[from].ports[1].peer_port,
                  mlid, received, 0) == 0;
}
