/* The module, and common functions of its two types of nodes. */
#include "node.h"
#include "udmon/include/udmon.h"

#include <errno.h>
#include <string.h>

DMM_MODULE_DECLARE(&udmon_send_type, &udmon_recv_type);

static void module_log(void *arg, enum udmon_log_level level, const char *line)
{
    static const int priorities[] = {
        [UDMON_LOG_ERROR] = DMM_LOG_ERR,
        [UDMON_LOG_WARN] = DMM_LOG_WARN,
    };

    (void)arg;
    if (level <= UDMON_LOG_WARN) { /* the agent has no way to ask for less */
        dmm_log(priorities[level], "udmon: %s", line);
    }
}

static int module_init(void)
{
    udmon_set_log(module_log, NULL);
    return 0;
}

DMM_MODULEINIT_DECLARE(module_init);

size_t node_list_length(const void *bytes, size_t size)
{
    struct dmm_datanode node;
    size_t at = 0;

    while ((size - at) >= sizeof(node)) {
        memcpy(&node, (const char *)bytes + at, sizeof(node));
        at += sizeof(node);
        if (DMM_DN_ISEND(&node)) {
            return at;
        }
        if (node.dn_len > (size - at)) {
            return 0;
        }
        at += node.dn_len;
    }
    return 0;
}

bool node_message_fits(dmm_node_p node, const struct dmm_msg *msg, size_t size)
{
    if (msg->cm_len == size) {
        return true;
    }
    dmm_log(DMM_LOG_ERR,
            "Node " DMM_PRINODE ": message %" PRIu32 " has %" PRIu32 " bytes instead of %zu: "
            "is its sender made for another version of net_udmon?",
            DMM_NODEINFO(node), msg->cm_cmd, (uint32_t)msg->cm_len, size);
    return false;
}

bool node_text_ends(dmm_node_p node, const char *field, const char *text, size_t size)
{
    if (memchr(text, '\0', size) != NULL) {
        return true;
    }
    dmm_log(DMM_LOG_ERR, "Node " DMM_PRINODE ": %s is longer than %zu bytes", DMM_NODEINFO(node),
            field, size - 1);
    return false;
}

int node_watch(dmm_node_p node, int fd)
{
    int err = dmm_sockevent_subscribe(fd, DMM_SOCKEVENT_IN, node);

    if (err != 0) {
        dmm_log(DMM_LOG_ERR, "Node " DMM_PRINODE ": the agent does not watch descriptor %d: %s",
                DMM_NODEINFO(node), fd, strerror(err));
    }
    return err;
}

int node_answer(dmm_node_p node, dmm_msg_p msg, int err, const void *payload, size_t size)
{
    dmm_msg_p response = DMM_MSG_CREATE_RESP(DMM_NODE_ID(node), msg, (err == 0) ? size : 0);

    if (response == NULL) {
        dmm_log(DMM_LOG_CRIT, "Node " DMM_PRINODE ": no memory for a response", DMM_NODEINFO(node));
        return ENOMEM;
    }
    if (err != 0) {
        response->cm_flags |= DMM_MSG_ERR;
    } else if (size > 0) {
        memcpy(response->cm_data, payload, size);
    }
    DMM_MSG_SEND_ID(msg->cm_src, response);
    return 0;
}
