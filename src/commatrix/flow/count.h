/*
 * Counting a packet for its flow: bytes, messages, activity, windows.
 */
#ifndef CM_COUNT_H
#define CM_COUNT_H

#include "traffic.h"

/** Whether a packet goes from the responder to the requester. */
bool cm_is_answer(const struct cm_packet *packet);

/** Whether an operation is the first packet of a message. */
bool cm_begins_message(uint8_t operation);

/** Returns the signs of trouble of a flow. The first call allocates them. */
struct cm_signs *cm_signs_of(struct cm_flow *flow);

/** Counts the time between a request and its answer. */
void cm_count_delay(struct cm_flow *flow, uint64_t delay_ns);

/** Count a packet; `again`: it is a retransmission, whose user data was counted. */
void cm_count(struct cm_traffic *traffic, struct cm_flow *flow, const struct cm_packet *packet,
              bool again);

#endif
