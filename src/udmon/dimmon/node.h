/* Common functions of the two types of nodes. */
#ifndef DIMMON_NODE_H
#define DIMMON_NODE_H

#include "dmm_base.h"
#include "dmm_log.h"
#include "dmm_message.h"
#include "dmm_sockevent.h"

#include <stdbool.h>
#include <stddef.h>

extern struct dmm_type udmon_send_type, udmon_recv_type;

/**
 * Returns the length of a list of data nodes including the final node; 0 if the list does not end
 * within `size` bytes. The list may come from the network and need not be aligned.
 */
size_t node_list_length(const void *bytes, size_t size);

/** Whether a message carries exactly `size` bytes; says so in the log if it does not. */
bool node_message_fits(dmm_node_p node, const struct dmm_msg *msg, size_t size);

/** Whether a text ends within its field; if not, the log names the field. */
bool node_text_ends(dmm_node_p node, const char *field, const char *text, size_t size);

/** Let the agent wake the node when `fd` is readable. An errno, after a line in the log. */
int node_watch(dmm_node_p node, int fd);

/**
 * Answer a request: with `size` bytes of `payload`, or with an error if `err` is one. Like the
 * agent's own messages, a failed request fails its response and not the sending of it.
 */
int node_answer(dmm_node_p node, dmm_msg_p msg, int err, const void *payload, size_t size);

#endif
