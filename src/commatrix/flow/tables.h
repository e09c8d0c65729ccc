/*
 * The tables of a traffic: addresses, flows, senders of datagrams; and what is known of each while
 * packets arrive. Used by the files of this folder only.
 */
#ifndef CM_TABLES_H
#define CM_TABLES_H

#include "traffic.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* small tables: many more inputs in the same time \
                                                 */
enum { BLOCK_FLOWS = 16, RECENT_BITS = 6, NUM_STARTED = 16 };
#else
enum { BLOCK_FLOWS = 4096, RECENT_BITS = 15, NUM_STARTED = 1024 };
#endif

/* The address that was looked for last. */
struct known_address {
    struct cm_address address;
    uint32_t id;
    bool valid;
};

/* What is known of a flow while packets arrive. */
struct track {
    struct cm_psn psn;         /* of requests; datagrams have theirs with their sender */
    struct cm_psn *answer_psn; /* of responses, once there was one */
    uint32_t open[2];          /* bytes so far of the message: request, response */
    uint32_t answered;         /* newest number that was answered */
    uint32_t path_mtu;         /* 0: not known */
};

/* Datagrams are numbered by their sender: UD by its queue pair, RD by a pair of EE contexts. */
struct sender {
    uint32_t src, dst, number;
    uint32_t answers_qpn; /* RD: the responder of the read in progress, or CM_QPN_NONE */
    struct cm_psn psn;
    struct cm_psn answer_psn;
};

static inline struct track *cm_track_of(const struct cm_traffic *traffic,
                                        const struct cm_flow *flow)
{
    struct track *block = g_ptr_array_index(traffic->tracks, flow->number / BLOCK_FLOWS);

    return &block[flow->number % BLOCK_FLOWS];
}

void cm_tables_init(struct cm_traffic *traffic);
void cm_tables_finish(struct cm_traffic *traffic);

/** The number of an address. `side`: 0 for senders, 1 for receivers. */
uint32_t cm_find_address(struct cm_traffic *traffic, const struct cm_address *address, int side);

/** Each is made when it is first looked for. */
struct cm_flow *cm_find_flow(struct cm_traffic *traffic, const struct cm_flow_key *key);

/** The flow of a key, or NULL. */
struct cm_flow *cm_known_flow(struct cm_traffic *traffic, const struct cm_flow_key *key);

struct sender *cm_find_sender(struct cm_traffic *traffic, uint32_t src, uint32_t dst,
                              uint32_t number);

#endif
