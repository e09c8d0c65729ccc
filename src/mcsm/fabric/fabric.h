/*
 * The fabric as discovered inside the cluster: nodes, ports and links.
 *
 * A sweep builds a new fabric beside the old fabric. LIDs by GUID, and the forwarding tables that
 * the switches are known to have, are copied from the old fabric. The fabric contains nothing
 * beyond a border port.
 */
#ifndef MCSM_FABRIC_H
#define MCSM_FABRIC_H

#include "config/config.h"

#include <uthash.h>

enum { MCSM_MAX_HOPS = 63, MCSM_LFT_SIZE = 49152, MCSM_PKEYS_MAX = 4096 };

/* Link states of PortInfo. */
enum {
    MCSM_STATE_DOWN = 1,
    MCSM_STATE_INIT = 2,
    MCSM_STATE_ARMED = 3,
    MCSM_STATE_ACTIVE = 4,
    MCSM_PHYS_LINK_UP = 5
};

struct mcsm_node;

/* A directed route: path[1..hops] are the ports to leave through. */
struct mcsm_path {
    uint8_t port[64];
    uint8_t hops;
};

struct mcsm_port {
    struct mcsm_node *node;
    struct mcsm_port *peer; /* NULL: nothing, unknown, or beyond the border */
    uint64_t guid;          /* port GUID of a CA port or of port 0 of a switch; else 0 */
    uint16_t lid;           /* the base LID that the port gets; 0: none */
    uint8_t num;
    uint8_t state;
    uint8_t phys;
    bool known; /* PortInfo was read */
    bool border;
    bool drained;         /* no route leads through, by order of the administrator or of health */
    bool held;            /* drained by order of health */
    bool probed;          /* NodeInfo of the node behind the port was requested */
    bool silent;          /* the node behind the port did not answer */
    bool failed;          /* a Set was refused, so routes may not use the port */
    uint8_t info[64];     /* PortInfo as read or written last */
    bool enforce;         /* the switch port filters packets by P_Keys */
    uint16_t *pkeys;      /* its P_Key table, as read or written last; may be NULL */
    unsigned pkey_count;  /* entries, a multiple of 32 */
    unsigned pkey_blocks; /* blocks of the P_Key table that were not read yet */

    /* SL2VL and VLArb tables: whether the port has other tables than the manager wants. `vl_now` is
     * the result of the reading that runs, with `vl_pending` answers to come. */
    bool vl_differs, vl_now;
    uint16_t vl_pending;
};

struct mcsm_node {
    uint64_t guid;
    UT_hash_handle hh;
    uint64_t sys_guid;
    uint8_t type; /* 1 CA, 2 switch, 3 router */
    uint8_t nports;
    bool sw;
    bool moved; /* two places answered: two nodes with one GUID, or a moved cable */
    char desc[65];
    uint8_t info[64];     /* NodeInfo */
    uint8_t raw_desc[64]; /* NodeDescription */
    uint8_t sw_info[64];  /* SwitchInfo */
    struct mcsm_path path;
    struct mcsm_port *ports; /* 0..nports */
    int index;               /* among the switches; -1 */

    /* Of a switch. `lft` and `mft` are the wanted tables, `*_known` the tables in the switch. */
    uint8_t *lft, *lft_known;
    uint16_t *mft, *mft_known; /* [position][mlid] */
    bool lft_valid, mft_valid; /* whether *_known is known */
    unsigned lft_size, lft_known_size;
};

struct mcsm_fabric {
    struct mcsm_node *nodes; /* hashed by GUID */
    struct mcsm_node **switches;
    int switch_count;
    int ca_count;
    int link_count;
    struct mcsm_port *own_port; /* where the manager runs */
    struct mcsm_port **by_lid;  /* MCSM_LFT_SIZE entries */
    struct mcsm_port **ends;    /* the end ports, sorted by GUID; NULL before mcsm_fabric_index() */
    size_t end_count;
    uint16_t lid_top;
};

struct mcsm_fabric *mcsm_fabric_new(void);
void mcsm_fabric_free(struct mcsm_fabric *fabric);

/** A new node with all its ports; NULL without memory. */
struct mcsm_node *mcsm_fabric_add(struct mcsm_fabric *fabric, uint64_t guid, uint8_t type,
                                  uint8_t nports);
struct mcsm_node *mcsm_fabric_find(const struct mcsm_fabric *fabric, uint64_t guid);

/** Finds the end port with this port GUID, or NULL. Slow before mcsm_fabric_index(). */
struct mcsm_port *mcsm_fabric_find_port(const struct mcsm_fabric *fabric, uint64_t port_guid);

/** The end port that has the LID, also as one of 2^LMC; NULL if none. */
struct mcsm_port *mcsm_fabric_by_lid(const struct mcsm_fabric *fabric, unsigned lid);

/** After discovery. Number the switches by GUID, so that routes depend on the fabric and not on the
 * order in which answers came; count nodes and links; list the end ports. -ENOMEM. */
int mcsm_fabric_index(struct mcsm_fabric *fabric);

/** Ports with their own LID: ports of CAs and routers, and port 0 of switches. */
static inline bool mcsm_is_end_port(const struct mcsm_port *port)
{
    return port->node->sw ? port->num == 0 : port->num > 0;
}

static inline const char *mcsm_type_name(const struct mcsm_node *node)
{
    return node->type == 2 ? "switch" : node->type == 3 ? "router" : "ca";
}

/** Whether packets may go over the link of this port. */
bool mcsm_port_usable(const struct mcsm_port *port);

/** Whether the port has a link that the manager configures. */
bool mcsm_port_has_link(const struct mcsm_port *port);

/** The directed route to a port: through its own link if it is one of a CA. */
struct mcsm_path mcsm_port_path(const struct mcsm_port *port);

/** How many positions of 16 ports a multicast table has. */
static inline int mcsm_mft_positions(const struct mcsm_node *node)
{
    return node->nports / 16 + 1;
}

/** Make room in the tables of a switch for LIDs up to `lid_top`. -ENOMEM. */
int mcsm_fabric_tables(struct mcsm_node *node, unsigned lid_top, unsigned mlids);

/** Copies the old fabric's knowledge of the tables in switches and ports. */
void mcsm_fabric_inherit(struct mcsm_fabric *fabric, struct mcsm_fabric *old);

#endif
