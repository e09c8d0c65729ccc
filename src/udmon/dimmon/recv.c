/*
 * DiMMon node net/udmon/recv: receives the data of other agents' net/udmon/send nodes and passes
 * the data on through its hook, unchanged.
 */
#include "node.h"
#include "net_udmon.h"
#include "udmon/include/udmon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct recv_state {
    dmm_node_p node;
    dmm_hook_p hook; /* or NULL */
    struct udmon_server *server;
    struct dmm_msg_udmonrecv_getstats_resp stats;
};

static struct recv_state *recv_state(dmm_node_p node)
{
    return (struct recv_state *)DMM_NODE_PRIVATE(node);
}

static int recv_ctor(dmm_node_p node)
{
    struct recv_state *state = calloc(1, sizeof(*state));

    if (state == NULL) {
        dmm_log(DMM_LOG_CRIT, "no memory for a node of type net/udmon/recv");
        return ENOMEM;
    }
    state->node = node;
    DMM_NODE_SETPRIVATE(node, state);
    return 0;
}

/* The agent has given up the node's events before. */
static void recv_dtor(dmm_node_p node)
{
    struct recv_state *state = recv_state(node);

    if (state->server != NULL) {
        udmon_server_close(state->server);
    }
    free(state);
}

static int recv_newhook(dmm_hook_p hook)
{
    struct recv_state *state = recv_state(DMM_HOOK_NODE(hook));

    if (DMM_HOOK_ISIN(hook)) {
        return EINVAL;
    }
    if (state->hook != NULL) {
        return EEXIST;
    }
    state->hook = hook;
    return 0;
}

static void recv_rmhook(dmm_hook_p hook)
{
    recv_state(DMM_HOOK_NODE(hook))->hook = NULL;
}

static void recv_message(void *arg, const struct udmon_peer *peer,
                         const struct udmon_message *message)
{
    struct recv_state *state = arg;
    dmm_data_p data;

    if ((message->length == 0) ||
        (node_list_length(message->data, message->length) != message->length)) {
        if (state->stats.invalid++ == 0) {
            dmm_log(DMM_LOG_WARN,
                    "Node " DMM_PRINODE ": %zu bytes of %s at %s are no data of DiMMon; further "
                    "ones are counted only",
                    DMM_NODEINFO(state->node), message->length, peer->name, peer->address);
        }
        return;
    }
    ++state->stats.received;
    if (state->hook == NULL) {
        return;
    }
    data = DMM_DATA_CREATE_RAW(0, message->length - sizeof(struct dmm_datanode));
    if (data == NULL) {
        dmm_log(DMM_LOG_CRIT, "Node " DMM_PRINODE ": no memory for %zu bytes of data",
                DMM_NODEINFO(state->node), message->length);
        return;
    }
    memcpy(data->da_nodes, message->data, message->length);
    DMM_DATA_SEND(data, state->hook);
    DMM_DATA_UNREF(data);
}

static void recv_joined(void *arg, const struct udmon_peer *peer)
{
    struct recv_state *state = arg;

    ++state->stats.clients;
    dmm_log(DMM_LOG_INFO, "Node " DMM_PRINODE ": %s at %s connected over %s",
            DMM_NODEINFO(state->node), peer->name, peer->address, peer->transport);
}

static void recv_left(void *arg, const struct udmon_peer *peer, enum udmon_left reason,
                      const struct udmon_stats *stats)
{
    struct recv_state *state = arg;

    --state->stats.clients;
    dmm_log((reason == UDMON_LEFT_SILENT) ? DMM_LOG_WARN : DMM_LOG_INFO,
            "Node " DMM_PRINODE ": %s at %s is gone%s; received %" PRIu64 ", lost %" PRIu64,
            DMM_NODEINFO(state->node), peer->name, peer->address,
            (reason == UDMON_LEFT_SILENT) ? ", nothing was heard any more" : "", stats->received,
            stats->lost);
}

static void recv_gap(void *arg, const struct udmon_peer *peer, uint64_t first, uint64_t count)
{
    struct recv_state *state = arg;

    (void)first;
    state->stats.lost += count;
    dmm_log(DMM_LOG_NOTICE, "Node " DMM_PRINODE ": %" PRIu64 " pieces of data of %s are missing",
            DMM_NODEINFO(state->node), count, peer->name);
}

static int recv_bind(dmm_node_p node, dmm_msg_p msg)
{
    static const struct udmon_server_callbacks callbacks = {
        .message = recv_message,
        .joined = recv_joined,
        .left = recv_left,
        .gap = recv_gap,
    };
    const struct dmm_msg_udmonrecv_bind *bind = (const void *)msg->cm_data;
    struct recv_state *state = recv_state(node);
    struct udmon_options options;
    int ret;

    if (!node_message_fits(node, msg, sizeof(*bind)) ||
        !node_text_ends(node, "addr", bind->addr, sizeof(bind->addr)) ||
        !node_text_ends(node, "secret_file", bind->secret_file, sizeof(bind->secret_file))) {
        return EINVAL;
    }
    if (state->server != NULL) {
        dmm_log(DMM_LOG_ERR, "Node " DMM_PRINODE ": cannot listen on %s: it has been bound",
                DMM_NODEINFO(node), bind->addr);
        return EEXIST;
    }
    udmon_options_init(&options);
    options.max_record = UDMON_RECORD_MAX;
    options.queue_bytes = 2 * UDMON_RECORD_MAX; /* made only where there are replies */
    options.secret_file = (bind->secret_file[0] != '\0') ? bind->secret_file : NULL;
    ret = udmon_server_open(bind->addr, &options, &callbacks, state, &state->server);
    if (ret < 0) {
        dmm_log(DMM_LOG_ERR, "Node " DMM_PRINODE ": cannot listen on %s: %s", DMM_NODEINFO(node),
                bind->addr, strerror(-ret));
        return -ret;
    }
    ret = node_watch(node, udmon_server_fd(state->server));
    if (ret != 0) {
        udmon_server_close(state->server);
        state->server = NULL;
    }
    return ret;
}

static int recv_getstats(dmm_node_p node, dmm_msg_p msg)
{
    int err = node_message_fits(node, msg, 0) ? 0 : EINVAL;

    return node_answer(node, msg, err, &recv_state(node)->stats, sizeof(recv_state(node)->stats));
}

static int recv_rcvmsg(dmm_node_p node, dmm_msg_p msg)
{
    int err = ENOTSUP;

    if (msg->cm_flags & DMM_MSG_RESP) {
        err = 0;
    } else if (msg->cm_type == DMM_MSGTYPE_GENERIC) {
        if ((msg->cm_cmd == DMM_MSG_SOCKEVENTTRIGGER) && (recv_state(node)->server != NULL)) {
            udmon_server_process(recv_state(node)->server);
            err = 0;
        }
    } else if (msg->cm_type == DMM_MSGTYPE_UDMONRECV) {
        if (msg->cm_cmd == DMM_MSG_UDMONRECV_BIND) {
            err = node_answer(node, msg, recv_bind(node, msg), NULL, 0);
        } else if (msg->cm_cmd == DMM_MSG_UDMONRECV_GETSTATS) {
            err = recv_getstats(node, msg);
        }
    }
    DMM_MSG_FREE(msg);
    return err;
}

struct dmm_type udmon_recv_type = {
    .tp_name = "net/udmon/recv",
    .ctor = recv_ctor,
    .dtor = recv_dtor,
    .rcvmsg = recv_rcvmsg,
    .newhook = recv_newhook,
    .rmhook = recv_rmhook,
};
