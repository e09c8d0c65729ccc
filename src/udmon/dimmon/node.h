/* What the two types of nodes have in common. */
#ifndef DIMMON_NODE_H
#define DIMMON_NODE_H

#include "dmm_base.h"
#include "dmm_log.h"
#include "dmm_message.h"
#include "dmm_sockevent.h"

#include <stdbool.h>
#include <stddef.h>

extern struct dmm_type udmon_send_type, udmon_recv_type;

/*
 * The length of a list of data nodes with the node that ends it; 0 if it does not end within `size`
 * bytes, which may come from the network and lie anywhere.
 */
size_t node_list_length(const void *bytes, size_t size);

/* Whether a message carries exactly `size` bytes; says so in the log if it does not. */
bool node_message_fits(dmm_node_p node, const struct dmm_msg *msg, size_t size);

/* Whether a text ends within its field; else says in the log which. */
bool node_text_ends(dmm_node_p node, const char *field, const char *text, size_t size);

/* Let the agent wake the node when `fd` is readable. An errno, after a line in the log. */
int node_watch(dmm_node_p node, int fd);

/*
 * Answer a request: with `size` bytes of `payload`, or with an error if `err` is one. Like the
 * agent's own messages, a failed request fails its response and not the sending of it.
 */
int node_answer(dmm_node_p node, dmm_msg_p msg, int err, const void *payload, size_t size);

#endif
