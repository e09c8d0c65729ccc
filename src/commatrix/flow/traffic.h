/*
 * The traffic of a capture: what was sent from where to where, counted by queue pairs.
 *
 * A flow is what one side sends to one queue pair of the other side. Everything is counted by
 * flows; matrices over LIDs, hosts, ranks, ... are sums over flows (matrix/matrix.h). Memory is
 * used by flows and addresses, not by packets.
 */
#ifndef CM_TRAFFIC_H
#define CM_TRAFFIC_H

#include "flow/psn.h"
#include "read/packet.h"

#include <glib.h>

struct cm_counts {
    uint64_t wire;    /* bytes on the wire, retransmissions included */
    uint64_t payload; /* bytes of user data, each once */
    uint64_t packets;
    uint64_t messages; /* that have ended */
    uint32_t largest;  /* bytes of the largest message */
    uint32_t lost;     /* packets that the capture has not got */
};

void cm_counts_add(struct cm_counts *sum, const struct cm_counts *counts);

/* Each way to write a rank into the first packet of a message; see rank.h. */
enum cm_mpi { CM_MPI_OMPI_UCX, CM_MPI_MPICH_UCX, CM_MPI_OMPI_OPENIB, CM_MPI_MVAPICH, CM_NUM_MPI };

/* The rank that most messages of a flow named, and how many more they are than the others. */
struct cm_vote {
    uint32_t rank : 22;
    uint32_t lead : 10;
};

/* The queue pair to which most answers went, and how many more than to others. */
struct cm_partner {
    uint32_t qpn : 24;
    uint32_t lead : 8;
};

struct cm_flow_key {
    uint32_t src, dst;         /* of cm_traffic_address() */
    uint32_t dst_qpn, src_qpn; /* src_qpn: only of datagrams; see cm_flow_src_qpn() */
};

struct cm_flow {
    struct cm_flow_key key;
    uint32_t number;           /* of the flow */
    struct cm_partner partner; /* of connections: src_qpn, as far as it is known */
    struct cm_counts counts;
    struct cm_vote votes[CM_NUM_MPI];
    uint32_t window_entry; /* newest entry in cm_traffic.windows; 0: none */
};

/* What a flow sent within one window of time. */
struct cm_window_entry {
    int32_t window; /* may be negative: the first packet read is not always the earliest */
    uint32_t flow;
    struct cm_counts counts;
};

struct cm_excluded {
    uint64_t packets, wire;
};

/* What the capture is like as a whole. */
struct cm_capture_counts {
    uint64_t packets; /* all that were read */
    uint64_t wire;
    uint64_t duplicates, retransmissions;
    uint64_t lost;        /* packets that are missing, by their sequence numbers */
    uint64_t cut;         /* shorter than on the wire */
    uint64_t cut_headers; /* so short that headers are missing */
    uint64_t first_ns, last_ns;
};

struct cm_traffic_options {
    uint32_t kinds;          /* bit of enum cm_kind: counts */
    uint64_t window_ns;      /* 0: no windows */
    uint32_t max_windows;    /* more than so many: their width doubles; 0: it is fixed */
    uint64_t from_ns, to_ns; /* since the first packet; to_ns 0: no end */
    uint32_t skew_us;        /* copies of a packet come within this time */
};

enum { CM_ACTIVITY_BINS = 2048 };

/* Bytes over time in a fixed number of bins, whose width doubles when time goes on. */
struct cm_activity {
    uint64_t width_ns;
    uint64_t bytes[CM_ACTIVITY_BINS];
    uint64_t packets[CM_ACTIVITY_BINS];
};

struct cm_traffic {
    struct cm_traffic_options options;
    struct cm_capture_counts capture;
    struct cm_excluded excluded[CM_NUM_KINDS];
    struct cm_activity activity;
    GArray *windows;      /* of struct cm_window_entry; the first is not used */
    GPtrArray *addresses; /* of struct cm_address */
    uint32_t num_flows;
    uint64_t first_read_ns; /* time of the first packet read */
    /* private */
    bool started_reading;
    GHashTable *address_ids;
    GHashTable *flow_set;
    GHashTable *senders; /* of datagrams */
    GPtrArray *blocks;   /* of flows: they keep their place */
    GPtrArray *tracks;   /* blocks of what is only needed while reading, in the same order */
    struct known_address *known;
    struct recent *recent;
    struct started *started; /* packets of which fragments may follow */
    struct cm_flow *last;
};

struct cm_traffic *cm_traffic_new(const struct cm_traffic_options *options);
void cm_traffic_free(struct cm_traffic *traffic);

/* Count one packet. */
void cm_traffic_add(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t captured);

/* All packets were added: free what is not needed any more. */
void cm_traffic_finish(struct cm_traffic *traffic);

struct cm_flow *cm_traffic_flow(const struct cm_traffic *traffic, uint32_t number);
const struct cm_address *cm_traffic_address(const struct cm_traffic *traffic, uint32_t id);

/* The queue pair that a flow comes from, or CM_QPN_NONE. */
uint32_t cm_flow_src_qpn(const struct cm_flow *flow);

#endif
