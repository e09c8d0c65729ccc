/*
 * A link: how requests reach the endpoints of a NIC. There is one through shared memory (shm.h) and
 * one to other hosts (net/net.h); fault injection and capture are links in front of the first.
 */
#ifndef GLEX_LINK_H
#define GLEX_LINK_H

#include "base/common.h"

struct glex_coll_desc;
struct glex_endpoint;
struct glex_nic;
struct glex_peer;

/* What carrying out a request came to: one of these, or an enum glex_err_req_status. */
#define GLEX_REQ_DONE      (-1)
#define GLEX_REQ_PEER_GONE (-2) /* the peer does not exist any more: look for it anew, post again */
#define GLEX_REQ_BUSY      (-3) /* nothing was done: to be posted again */

struct glex_link {
    const char *name;
    bool        is_remote; /* to other hosts: of struct glex_peer only what all links have is set, and
                              requests end later than the call that posts them */

    /** Whether the link leads to that NIC. */
    bool (*reaches)(struct glex_nic *dev, uint32_t nic_id);

    /** Connect to an endpoint. NULL, and *status_p why, where there is none. */
    struct glex_peer *(*attach)(struct glex_endpoint *ep, uint64_t addr, int *status_p);

    void (*detach)(struct glex_endpoint *ep, struct glex_peer *peer);

    /** Whether the peer endpoint still exists. */
    bool (*is_living)(struct glex_endpoint *ep, const struct glex_peer *peer);

    /* Carry out one well-formed request. If is_remote, only begin to. */
    int (*send_mp)(struct glex_endpoint *ep, struct glex_peer *peer,
                   const glex_imm_mp_req_t *req);
    int (*imm_put)(struct glex_endpoint *ep, struct glex_peer *peer,
                   const glex_imm_rdma_req_t *req);
    /** Post the event of the request, and nothing else of it. */
    int (*event)(struct glex_endpoint *ep, struct glex_peer *peer,
                 const glex_imm_rdma_req_t *req);
    int (*rdma)(struct glex_endpoint *ep, struct glex_peer *peer, const glex_rdma_req_t *req,
                char *local);

    /** A collective request, only of links to other hosts: what its target has to do of it. Data of
     *  COLL_CP_DATA and the like is in `desc`. NULL elsewhere. */
    int (*coll)(struct glex_endpoint *ep, struct glex_peer *peer,
                const struct glex_coll_desc *desc);
};

#endif
