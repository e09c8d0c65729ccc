/*
 * Simulated peers: this program answers in place of the peers' processes. The simulation lies
 * between an interface of the transport and its NIC. This file defines the functions of the NIC
 * that the transport calls, and calls libglex's functions for real peers. The simulated peers
 * follow docs/protocol.md alone.
 */
#ifndef TEST_SCALE_SIM_H
#define TEST_SCALE_SIM_H

#include "node.h"
#include "core/glex_vc.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_AM_ID     1
#define SIM_ANNOUNCED 512

enum sim_state {
    SIM_NEW,
    SIM_CONNECTING, /* the peer sent CONNECT */
    SIM_OPEN,
    SIM_OVER /* an END came */
};

struct sim_peer {
    uint32_t vc_id;    /* the interface's name of the VC */
    uint16_t seq;      /* of the peer's next message */
    uint16_t sent;     /* messages to the interface */
    uint16_t limit;    /* of these, that it may send in all */
    uint16_t received; /* messages from the interface */
    uint8_t state;
    uint8_t is_dead;  /* the NIC says so; it answers nothing */
    uint8_t has_lent; /* a FIFO to the interface */
    uint8_t released_gen;
    uint16_t released_index; /* of the FIFO that the peer gave back last */
    uint16_t stored;         /* messages through FIFOs that it borrowed */
    uint32_t fifo;           /* index of that which it has, plus 1; 0: none */
};

struct sim {
    struct sim_peer *peers;
    unsigned count;
    uint64_t open;     /* peers that know that the connection is open */
    uint64_t messages; /* from the interface to peers, in all */
    uint64_t checks;   /* times that the interface asked whether a peer lives */
    bool echo;         /* peers answer each message by one */
    unsigned lenders;  /* the first peers, which lend a FIFO to the interface */
    uint64_t lent;
    bool is_mapped;    /* the interface can read announced messages where they lie */
    bool is_full;      /* the peers' event queues: nothing can be given back to them */
    uint64_t borrowed; /* times that a peer got a FIFO of the interface's */
    uint64_t refused;  /* and that it got none */
    uint64_t released; /* and that it gave one back */
    uint64_t returned; /* announced messages that were given back to their senders */
    uct_glex_iface_t *iface;
};

extern struct sim sim;

/** Put `count` peers behind the NIC of an interface. The first `lenders` peers lend it a FIFO. */
void sim_begin(struct node *node, unsigned count, unsigned lenders);

/** The address of a peer, as a real peer would publish it. */
void sim_address(const struct node *node, unsigned index, struct node_address *address);

/** The peer connects to the interface. */
void sim_connect(unsigned index);

/** The peer sends an active message of 8 bytes. False: it has no credits. */
bool sim_send(unsigned index);

/** The peer announces a message of SIM_ANNOUNCED bytes in a send unit. False: it has no credits. */
bool sim_announce(unsigned index);

/** The peer asks the interface for a FIFO. */
void sim_borrow(unsigned index);

/** The peer stores a message in the FIFO that it borrowed, and rings if the interface does not poll
 *  it. False: it has none. Not more than 64 in all: no credits are heeded. */
bool sim_store(unsigned index);

/** The lenders from index `first` on take the messages in their FIFOs, and publish credits. */
void sim_take(unsigned first);

/** The peer's endpoint address. */
uint64_t sim_peer_addr(unsigned index);

/** Messages that peers sent and that the interface has not taken yet. */
unsigned sim_waiting(void);

#endif
