/*
 * A module of the DiMMon agent for dimmon.sh. Node test/source sends one piece of data at each
 * timer. The number of a piece determines its data. Node test/sink compares every received byte.
 * Sizes go from an empty node to more than ten datagrams.
 */
#include "dmm_base.h"
#include "dmm_log.h"
#include "dmm_message.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

enum { SENSOR_NUMBER = 1, SENSOR_FIRST = 100 };

static unsigned data_nodes(uint64_t number)
{
    return number % 5;
}

static unsigned data_length(uint64_t number, unsigned i)
{
    if ((number % 16) == 9) {
        return 6000 + i;
    }
    return (unsigned)((number * 7919 + i * 104729) % 300);
}

/* Piece `number`: its number, then so many nodes with so many bytes. */
static dmm_data_p data_make(uint64_t number)
{
    unsigned i, j, bytes = sizeof(number);
    dmm_datanode_p node;
    dmm_data_p data;

    for (i = 0; i < data_nodes(number); ++i) {
        bytes += data_length(number, i);
    }
    data = DMM_DATA_CREATE_RAW(data_nodes(number) + 1, bytes);
    if (data == NULL) {
        dmm_emerg("no memory for test data");
    }
    node = DMM_DATA_NODES(data);
    DMM_DN_FILL_ADVANCE(node, SENSOR_NUMBER, sizeof(number), &number);
    for (i = 0; i < data_nodes(number); ++i) {
        DMM_DN_CREATE(node, SENSOR_FIRST + i, data_length(number, i));
        for (j = 0; j < data_length(number, i); ++j) {
            node->dn_data[j] = (char)(number * 31 + i * 7 + j * 13);
        }
        DMM_DN_ADVANCE(node);
    }
    DMM_DN_MKEND(node);
    return data;
}

struct source {
    dmm_hook_p hook;
    uint64_t next;
};

static int source_ctor(dmm_node_p node)
{
    struct source *source = calloc(1, sizeof(*source));

    DMM_NODE_SETPRIVATE(node, source);
    return (source != NULL) ? 0 : ENOMEM;
}

static void source_dtor(dmm_node_p node)
{
    free(DMM_NODE_PRIVATE(node));
}

static int source_newhook(dmm_hook_p hook)
{
    ((struct source *)DMM_NODE_PRIVATE(DMM_HOOK_NODE(hook)))->hook = hook;
    return 0;
}

static int source_rcvmsg(dmm_node_p node, dmm_msg_p msg)
{
    struct source *source = (struct source *)DMM_NODE_PRIVATE(node);
    dmm_data_p data;

    if ((msg->cm_type == DMM_MSGTYPE_GENERIC) && (msg->cm_cmd == DMM_MSG_TIMERTRIGGER) &&
        (source->hook != NULL)) {
        data = data_make(source->next++);
        DMM_DATA_SEND(data, source->hook);
        DMM_DATA_UNREF(data);
    }
    DMM_MSG_FREE(msg);
    return 0;
}

static struct dmm_type source_type = {
    .tp_name = "test/source",
    .ctor = source_ctor,
    .dtor = source_dtor,
    .rcvmsg = source_rcvmsg,
    .newhook = source_newhook,
};

static int sink_rcvdata(dmm_hook_p hook, dmm_data_p data)
{
    dmm_datanode_p first = DMM_DATA_NODES(data);
    dmm_data_p expected;
    uint64_t number;
    int same;

    (void)hook;
    memcpy(&number, first->dn_data, sizeof(number));
    expected = data_make(number);
    same = (first->dn_sensor == SENSOR_NUMBER) && (expected->da_len == data->da_len) &&
           !memcmp(expected->da_nodes, data->da_nodes, data->da_len);
    dmm_log(DMM_LOG_INFO, "sink: %" PRIu64 " %s", number, same ? "unchanged" : "changed");
    DMM_DATA_UNREF(expected);
    DMM_DATA_UNREF(data);
    return 0;
}

static struct dmm_type sink_type = {.tp_name = "test/sink", .rcvdata = sink_rcvdata};

DMM_MODULE_DECLARE(&source_type, &sink_type);
