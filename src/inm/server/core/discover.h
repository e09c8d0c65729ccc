/* Discovery of the chips and links of the network. */
#ifndef INM_DISCOVER_H
#define INM_DISCOVER_H

#include "inm/topo/topo.h"
#include "net.h"

#include <time.h>

/* The source routes from this host to a chip and back. */
struct inm_route {
    struct glex_mgmt_route forward, backward;
};

/* Whether this host can manage the network. */
enum inm_network {
    NETWORK_OK,
    NETWORK_GONE,          /* this host's NIC does not answer */
    NETWORK_NO_LINK,       /* this host's NIC has no link to a router */
    NETWORK_WRONG_TOPOLOGY /* the chips that were found are not those of the topology */
};

/* The network as discovered. Numbers of chips and ports are those of the expected topology. */
struct inm_found {
    uint8_t *seen;           /* by chip */
    uint8_t *answers;        /* by chip: an NRC that answered */
    uint8_t *hop;            /* by chip: NRCs passed before it */
    uint32_t *peer;          /* by port; INM_NONE: no link */
    struct inm_route *route; /* by chip */
    uint32_t num_nrc, num_nic, num_links;
    uint32_t num_unknown; /* chips whose ids are outside of the topology */
    uint32_t num_missing; /* links of the topology that were not found */
    uint32_t num_differ;  /* links found that the topology does not have */
    uint64_t requests, modelled_ns;
    double real_seconds;
    time_t when;
};

/** Allocates an empty result. @return false: no memory. */
bool found_init(const struct inm_topo *topo, struct inm_found *found);
void found_free(struct inm_found *found);

/** Searches from this host's NIC, breadth first. */
enum inm_network discover(struct net *net, const struct inm_topo *topo, struct inm_found *found);

#endif
