/*
 * DiMMon node net/udmon/send: sends data from its hooks to a net/udmon/recv of another agent, each
 * piece of data as one record. The node never waits. Without a connection, records wait in
 * libudmon's queue. A full queue drops its oldest records.
 */
#include "node.h"
#include "net_udmon.h"
#include "udmon/include/udmon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SEND_QUEUE_BYTES = 4 * 1024 * 1024 };

struct send_state {
    dmm_node_p node;
    struct udmon_client *client;  /* or NULL */
    enum udmon_client_state told; /* the state in the last line of the log */
};

static struct send_state *send_state(dmm_node_p node)
{
    return (struct send_state *)DMM_NODE_PRIVATE(node);
}

static int send_ctor(dmm_node_p node)
{
    struct send_state *state = calloc(1, sizeof(*state));

    if (state == NULL) {
        dmm_log(DMM_LOG_CRIT, "no memory for a node of type net/udmon/send");
        return ENOMEM;
    }
    state->node = node;
    state->told = UDMON_CONNECTING;
    DMM_NODE_SETPRIVATE(node, state);
    return 0;
}

/* The agent has given up the node's events before. */
static void send_dtor(dmm_node_p node)
{
    struct send_state *state = send_state(node);

    if (state->client != NULL) {
        udmon_client_close(state->client);
    }
    free(state);
}

/* The client has connected or disconnected. A repeated failure to connect is not logged. */
static void send_changed(void *arg, enum udmon_client_state now, const char *reason)
{
    struct send_state *state = arg;

    if ((now == UDMON_CONNECTING) || (now == state->told)) {
        return;
    }
    state->told = now;
    if (now == UDMON_CONNECTED) {
        dmm_log(DMM_LOG_INFO, "Node " DMM_PRINODE ": connected over %s", DMM_NODEINFO(state->node),
                reason);
    } else {
        dmm_log(DMM_LOG_WARN, "Node " DMM_PRINODE ": not connected, trying again: %s",
                DMM_NODEINFO(state->node), reason);
    }
}

static int send_newhook(dmm_hook_p hook)
{
    return DMM_HOOK_ISOUT(hook) ? EINVAL : 0;
}

static int send_rcvdata(dmm_hook_p hook, dmm_data_p data)
{
    dmm_node_p node = DMM_HOOK_NODE(hook);
    struct udmon_client *client = send_state(node)->client;
    size_t length = node_list_length(data->da_nodes, data->da_len);
    int ret;

    if (client == NULL) {
        ret = -ENOTCONN; /* the configuration has yet to connect it */
    } else if (length == 0) {
        dmm_log(DMM_LOG_ERR, "Node " DMM_PRINODE ": data from hook %s has no end",
                DMM_NODEINFO(node), DMM_HOOK_NAME(hook));
        ret = -EBADMSG;
    } else {
        ret = udmon_client_send(client, data->da_nodes, length);
        if (ret < 0) {
            dmm_log(DMM_LOG_ERR, "Node " DMM_PRINODE ": %zu bytes cannot be sent: %s",
                    DMM_NODEINFO(node), length, strerror(-ret));
        }
    }
    DMM_DATA_UNREF(data);
    return -ret;
}

static int send_connect(dmm_node_p node, dmm_msg_p msg)
{
    const struct dmm_msg_udmonsend_connect *connect = (const void *)msg->cm_data;
    struct udmon_client_callbacks callbacks = {.state = send_changed};
    struct send_state *state = send_state(node);
    struct udmon_options options;
    int ret;

    if (!node_message_fits(node, msg, sizeof(*connect)) ||
        !node_text_ends(node, "addr", connect->addr, sizeof(connect->addr)) ||
        !node_text_ends(node, "secret_file", connect->secret_file, sizeof(connect->secret_file)) ||
        !node_text_ends(node, "source", connect->source, sizeof(connect->source)) ||
        !node_text_ends(node, "name", connect->name, sizeof(connect->name))) {
        return EINVAL;
    }
    if (state->client != NULL) {
        dmm_log(DMM_LOG_ERR, "Node " DMM_PRINODE ": cannot connect to %s: it has been connected",
                DMM_NODEINFO(node), connect->addr);
        return EISCONN;
    }
    udmon_options_init(&options);
    options.max_record = UDMON_RECORD_MAX;
    options.queue_bytes = SEND_QUEUE_BYTES;
    options.secret_file = (connect->secret_file[0] != '\0') ? connect->secret_file : NULL;
    options.source = (connect->source[0] != '\0') ? connect->source : NULL;
    options.name = (connect->name[0] != '\0') ? connect->name : NULL;
    ret = udmon_client_open(connect->addr, &options, &callbacks, state, &state->client);
    if (ret < 0) {
        dmm_log(DMM_LOG_ERR, "Node " DMM_PRINODE ": cannot connect to %s: %s", DMM_NODEINFO(node),
                connect->addr, strerror(-ret));
        return -ret;
    }
    ret = node_watch(node, udmon_client_fd(state->client));
    if (ret != 0) {
        udmon_client_close(state->client);
        state->client = NULL;
    }
    return ret;
}

static int send_getstats(dmm_node_p node, dmm_msg_p msg)
{
    struct dmm_msg_udmonsend_getstats_resp response = {0};
    struct udmon_client *client = send_state(node)->client;
    struct udmon_stats stats;

    if (!node_message_fits(node, msg, 0)) {
        return node_answer(node, msg, EINVAL, NULL, 0);
    }
    if (client != NULL) {
        udmon_client_stats(client, &stats);
        response.connected = (udmon_client_state(client) == UDMON_CONNECTED);
        response.accepted = stats.accepted;
        response.dropped = stats.dropped;
        response.received = stats.peer_received;
        response.lost = stats.peer_lost;
    }
    return node_answer(node, msg, 0, &response, sizeof(response));
}

static int send_rcvmsg(dmm_node_p node, dmm_msg_p msg)
{
    int err = ENOTSUP;

    if (msg->cm_flags & DMM_MSG_RESP) {
        err = 0;
    } else if (msg->cm_type == DMM_MSGTYPE_GENERIC) {
        if ((msg->cm_cmd == DMM_MSG_SOCKEVENTTRIGGER) && (send_state(node)->client != NULL)) {
            udmon_client_process(send_state(node)->client);
            err = 0;
        }
    } else if (msg->cm_type == DMM_MSGTYPE_UDMONSEND) {
        if (msg->cm_cmd == DMM_MSG_UDMONSEND_CONNECT) {
            err = node_answer(node, msg, send_connect(node, msg), NULL, 0);
        } else if (msg->cm_cmd == DMM_MSG_UDMONSEND_GETSTATS) {
            err = send_getstats(node, msg);
        }
    }
    DMM_MSG_FREE(msg);
    return err;
}

struct dmm_type udmon_send_type = {
    .tp_name = "net/udmon/send",
    .ctor = send_ctor,
    .dtor = send_dtor,
    .rcvdata = send_rcvdata,
    .rcvmsg = send_rcvmsg,
    .newhook = send_newhook,
};
