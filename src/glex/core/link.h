/*
 * A link executes requests to the endpoints of a NIC. One link uses shared memory (shm.h), another
 * connects to other hosts (net/net.h). Fault injection and capture are links before the link
 * through shared memory.
 */
#ifndef GLEX_LINK_H
#define GLEX_LINK_H

#include "base/common.h"

struct glex_coll_desc;
struct glex_endpoint;
struct glex_nic;
struct glex_peer;

/* The result of executing a request: one of the following, or an enum glex_err_req_status. */
#define GLEX_REQ_DONE      (-1)
#define GLEX_REQ_PEER_GONE (-2) /* the peer no longer exists: look it up and post again */
#define GLEX_REQ_BUSY      (-3) /* nothing was done: to be posted again */

struct glex_link {
    const char *name;
    bool is_remote; /* to other hosts: only the common fields of struct glex_peer are set,
                     * and requests end later than the call that posts them */

    /** Whether the link leads to that NIC. */
    bool (*reaches)(struct glex_nic *dev, uint32_t nic_id);

    /** Connect to an endpoint. NULL, with the reason in *status_p, if impossible. */
    struct glex_peer *(*attach)(struct glex_endpoint *ep, uint64_t addr, int *status_p);

    void (*detach)(struct glex_endpoint *ep, struct glex_peer *peer);

    /** Whether the peer endpoint still exists. */
    bool (*is_living)(struct glex_endpoint *ep, const struct glex_peer *peer);

    /* Carry out one well-formed request. If is_remote, only begin to. */
    int (*send_mp)(struct glex_endpoint *ep, struct glex_peer *peer, const glex_imm_mp_req_t *req);
    int (*imm_put)(struct glex_endpoint *ep, struct glex_peer *peer,
                   const glex_imm_rdma_req_t *req);
    /** Post the event of the request, and nothing else of it. */
    int (*event)(struct glex_endpoint *ep, struct glex_peer *peer, const glex_imm_rdma_req_t *req);
    int (*rdma)(struct glex_endpoint *ep, struct glex_peer *peer, const glex_rdma_req_t *req,
                char *local);

    /** Sends a collective request, for the target to carry out. `desc` has the data of COLL_CP_DATA
     * and similar flags. Links within a host have NULL here. */
    int (*coll)(struct glex_endpoint *ep, struct glex_peer *peer,
                const struct glex_coll_desc *desc);
};

#endif
