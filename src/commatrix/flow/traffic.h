/*
 * The traffic of a capture, counted by flows.
 *
 * A flow is the packets from one address to one queue pair of another address. Matrices over LIDs,
 * hosts or ranks are sums over flows (matrix/matrix.h). The memory grows with the number of flows
 * and addresses, not with the number of packets.
 *
 * All times of the output count from the zero of the capture: cm_traffic_zero().
 */
#ifndef CM_TRAFFIC_H
#define CM_TRAFFIC_H

#include "flow/psn.h"
#include "read/packet.h"

#include <glib.h>

enum cm_message { CM_MESSAGE_SEND, CM_MESSAGE_WRITE, CM_MESSAGE_READ, CM_NUM_MESSAGES };

struct cm_counts {
    uint64_t wire;    /* bytes on the wire, retransmissions included */
    uint64_t payload; /* bytes of user data, each once */
    uint64_t packets;
    uint64_t ended[CM_NUM_MESSAGES]; /* sends, writes and answers of reads that have ended */
    uint64_t atomics;                /* requests of atomic operations */
    uint32_t largest;                /* bytes of the largest message */
    uint32_t lost;                   /* packets that the capture has not got */
};

static inline uint64_t cm_counts_messages(const struct cm_counts *counts)
{
    return counts->ended[CM_MESSAGE_SEND] + counts->ended[CM_MESSAGE_WRITE] +
           counts->ended[CM_MESSAGE_READ];
}

void cm_counts_add(struct cm_counts *sum, const struct cm_counts *counts);

/* Times from a request to its answer: four bins for each power of two, from 256 ns on. */
enum { CM_DELAY_BINS = 64, CM_DELAY_FIRST_BIT = 8 };

/* Signs of trouble of a flow. A flow without signs has no such struct. */
struct cm_signs {
    uint64_t retransmissions;
    uint64_t congested; /* packets with the mark of congestion: ECN of IP, FECN of InfiniBand */
    uint64_t cnps;      /* congestion notifications that the receiver sent back */
    uint32_t delays[CM_DELAY_BINS];
};

void cm_signs_add(struct cm_signs *sum, const struct cm_signs *signs);

/** The delay in nanoseconds that `percent` of the requests did not exceed; 0: none is known. */
uint64_t cm_delay_percentile(const struct cm_signs *signs, unsigned percent);

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
    uint32_t window_entry;  /* newest entry in cm_traffic.windows; 0: none */
    struct cm_signs *signs; /* NULL: none */
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

/* The capture as a whole, between --from and --to. */
struct cm_capture_counts {
    uint64_t packets;
    uint64_t wire;
    uint64_t duplicates, retransmissions;
    uint64_t numbered;    /* packets with a sequence number, of the kinds that count */
    uint64_t lost;        /* packets that are missing, by their sequence numbers */
    uint64_t unsure;      /* datagrams that are missing, or went where nothing is captured */
    uint64_t restarts;    /* jumps of sequence numbers that are no loss: a new connection */
    uint64_t cut;         /* shorter than on the wire */
    uint64_t cut_headers; /* captured without all headers */
    uint64_t tunnels;     /* packets within tunnels */
    uint64_t closed[CM_NUM_CLOSED]; /* packets of tunnels that were not looked into */
    uint64_t first_ns, last_ns;
};

struct cm_traffic_options {
    uint32_t kinds;          /* bit of enum cm_kind: counts */
    uint64_t zero_ns;        /* the earliest time of the capture; 0: not known beforehand */
    uint64_t window_ns;      /* 0: no windows */
    uint32_t max_windows;    /* the width doubles for more windows than this; 0: it is fixed */
    uint64_t from_ns, to_ns; /* since the zero of the capture; to_ns 0: no end */
    uint32_t skew_us;        /* a repeated packet within this time is a copy by mirroring */
};

enum { CM_ACTIVITY_BINS = 2048 };

struct cm_activity_bin {
    uint64_t bytes, packets;
    uint64_t first_ns, last_ns; /* of its packets */
};

/* Bytes over time in a fixed number of bins, whose width doubles when time goes on. */
struct cm_activity {
    uint64_t width_ns;
    uint64_t base; /* the time of the first bin, in widths since 1970 */
    struct cm_activity_bin bins[CM_ACTIVITY_BINS];
};

enum { CM_SIZE_BINS = 33 };

struct cm_traffic {
    struct cm_traffic_options options;
    struct cm_capture_counts capture;
    struct cm_excluded excluded[CM_NUM_KINDS];
    struct cm_activity activity;
    /* Messages by size: bin 0 for no data, bin i for 2^(i-1) bytes and more. */
    uint64_t sizes[CM_NUM_MESSAGES][CM_SIZE_BINS];
    GArray *windows;      /* of struct cm_window_entry; the first is not used */
    GPtrArray *addresses; /* of struct cm_address */
    uint32_t num_flows;
    uint64_t earliest_ns; /* of all packets so far */
    /* private */
    bool started_reading;
    bool counting; /* the packet is between --from and --to */
    GHashTable *address_ids;
    uint32_t *slots; /* hash table of flows: number + 1, or 0 */
    uint32_t num_slots;
    GHashTable *senders; /* of datagrams */
    GPtrArray *blocks;   /* of flows: they keep their place */
    GPtrArray *tracks;   /* blocks of what is only needed while reading, in the same order */
    struct known_address *known;
    struct recent *recent;
    struct started *started; /* packets of which fragments may follow */
    struct cm_flow *last;
};

/** A hash of one word, for tables. */
static inline uint32_t cm_mix(uint64_t value)
{
    value *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(value >> 32);
}

struct cm_traffic *cm_traffic_new(const struct cm_traffic_options *options);
void cm_traffic_free(struct cm_traffic *traffic);

/** Count one packet. */
void cm_traffic_add(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t captured);

/** Frees the tables for reading, after the last packet. */
void cm_traffic_finish(struct cm_traffic *traffic);

struct cm_flow *cm_traffic_flow(const struct cm_traffic *traffic, uint32_t number);
const struct cm_address *cm_traffic_address(const struct cm_traffic *traffic, uint32_t id);

/** The zero of all times that are shown: the time of the earliest packet. */
static inline uint64_t cm_traffic_zero(const struct cm_traffic *traffic)
{
    return traffic->options.zero_ns != 0 ? traffic->options.zero_ns : traffic->earliest_ns;
}

/** The queue pair that a flow comes from, or CM_QPN_NONE. */
uint32_t cm_flow_src_qpn(const struct cm_flow *flow);

#endif
