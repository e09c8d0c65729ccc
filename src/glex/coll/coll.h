/*
 * Collective offload: requests that wait at an endpoint until control packets (CP) have come, and
 * are then carried out by whoever delivered the last one, although the endpoint's owner computes.
 *
 * Each endpoint's segment has an area with its descriptors and the CPs that came (coll_layout.h).
 * Whoever put something there tries to become the area's *agent*, by compare-and-swap of its
 * incarnation, and carries out what can be carried out. Who does not become agent need not wait: it
 * has set `pending` before, and the agent looks at that again after it has gone.
 *
 *   agent:  agent = me (else return); pending = 0; carry; agent = 0; pending set? from the start
 *   other:  put something there; pending = 1; agent == 0? become agent
 *
 * Both sides store one word and then load the other's, all with sequential consistency: at least
 * one of the two sees what the other stored, so nothing stays behind unseen.
 *
 * An agent that carries one endpoint's sequence delivers CPs to others, and becomes their agent
 * next: from a list, never by a call within a call. An agent is of one endpoint's library call and
 * lives as long as that; if it is killed, the owner's next call takes its place (coll.c), and
 * `step` says how far it was.
 */
#ifndef GLEX_COLL_H
#define GLEX_COLL_H

#include "core/endpoint.h"
#include "shm/coll_layout.h"

/* Beside GLEX_REQ_*: only the owner itself can carry out this request. */
#define GLEX_COLL_OWNER (-4)

/* Beside the kinds of an area's descriptors: a Get, of which glex_coll_error() knows, too. */
#define GLEX_COLL_GET GLEX_COLL_KINDS

/* Most CPs that a sequence can wait for; the rest of the CPQ is room for those that come early. */
#define GLEX_COLL_MAX_COUNT (GLEX_COLL_CPQ_CAPACITY / 2)

/* A packet with one of these carries its data beside a put. */
#define GLEX_COLL_WITH_DATA                                                                       \
    (GLEX_FLAG_COLL_CP_DATA | GLEX_FLAG_COLL_CP_SWAP_DATA | GLEX_FLAG_COLL_CP_SWAP_ADDR)

/* Requests of others, and of its own that waited, that one call carries out at most. */
#define GLEX_COLL_BUDGET 16384u

/* Empty polls until an owner carries its collectives on: a program that polls seldom must not have
 * to poll thousands of times. */
#define GLEX_COLL_PATIENCE 32u

/* What of a request the endpoint that it is sent to has to do. */
#define GLEX_COLL_AT_TARGET                                                                       \
    (GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_COLL_CP_DATA | GLEX_FLAG_COLL_CP_SWAP_DATA |              \
     GLEX_FLAG_COLL_CP_SWAP_ADDR)

/** The areas that a library call has still to look at. */
struct glex_coll_work {
    struct glex_endpoint    *ep; /* who looks */
    STAILQ_HEAD(, glex_peer) peers; /* whose areas */
    uint32_t                 budget; /* requests that the call carries out at most */
};

/** A request that is being carried out. */
struct glex_coll_send {
    struct glex_coll_work *work;
    struct glex_endpoint  *ep;    /* who carries it out */
    struct glex_peer      *owner; /* whose request it is; may be `ep` itself */
    uint64_t               src;   /* address of the endpoint that posted it: the owner's, but for
                                     requests that came over the network */
    struct glex_coll_desc *desc;  /* a private copy, checked, with what CPs offered */
    uint64_t              *step_p; /* where it is noted how far it is */
    uint64_t               step;
    bool                   queued; /* may be continued later */
    bool                   remote; /* the network ends it: its local event comes then */
    uint64_t               set[GLEX_COLL_SET_MAX_NUM];
    uint32_t               num_set; /* 0: to desc->dst */
};

/* ---- the owner's side: coll.c ---------------------------------------------------------------- */

/** Take a request with GLEX_FLAG_COLL. */
glex_ret_t glex_coll_post_mp(struct glex_endpoint *ep, const glex_imm_mp_req_t *req);
glex_ret_t glex_coll_post_imm_rdma(struct glex_endpoint *ep, const glex_imm_rdma_req_t *req);
glex_ret_t glex_coll_post_rdma(struct glex_endpoint *ep, const glex_rdma_req_t *req);

/** Error requests of descriptors that others carried out. */
void glex_coll_reap(struct glex_endpoint *ep);

/** The error request of a descriptor, or of any request that is given as one. */
void glex_coll_error(struct glex_endpoint *ep, const struct glex_coll_desc *desc, int status);

/** Polls found nothing: carry on what others could not, and replace an agent that died. */
void glex_coll_idle(struct glex_endpoint *ep);

/** Whether an endpoint of this process may have posted a sequence. */
bool glex_coll_is_used(void);

/** Whether glex_coll_idle() may have something to do: do not sleep. */
bool glex_coll_is_pending(const struct glex_endpoint *ep);

/* ---- carrying: coll_carry.c ------------------------------------------------------------------ */

/** Have storage for a peer's area, and its views set up. GLEX_REQ_DONE or a status. */
int glex_coll_enable(struct glex_endpoint *ep, struct glex_peer *peer);

/** Something was put into a peer's area: this call is to look at it. `work` NULL: the area's owner
 *  is, at its next idle poll. */
void glex_coll_notify(struct glex_coll_work *work, struct glex_peer *peer);

/** Look at all areas of the list, and at those that are notified meanwhile. */
void glex_coll_run(struct glex_coll_work *work);

/** A CP whose producer was killed before it published it stands in the way of the others: let its
 *  owner pass over it, as agent, because that must be the consumer. */
void glex_coll_pass_over(struct glex_endpoint *ep);

/** Whether a descriptor is one that can be carried out; its flags are known. */
bool glex_coll_is_valid(const struct glex_coll_desc *desc);

/* ---- one request: coll_send.c ---------------------------------------------------------------- */

/* The first of its stages (GLEX_COLL_STEP()); before it are those of coll_carry.c. */
#define GLEX_COLL_STAGE_SEND 8u

/** The request's own data is the set of its destinations; what is sent is what a CP offered. */
void glex_coll_take_set(struct glex_coll_send *send);

/** Carry it out, from the step on. GLEX_REQ_DONE, GLEX_REQ_BUSY and GLEX_COLL_OWNER (to be
 *  continued), or the status of an error request. */
int glex_coll_send(struct glex_coll_send *send);

/**
 * Carry out a request that came over the network, at its target `ep`. The memory of GLEX_COLL_PUT
 * is written already.
 * @param desc    Its flags are of GLEX_COLL_AT_TARGET and REMOTE_EVT, NO_LOSS.
 * @param step_p  0 at the first call; where it returns GLEX_REQ_BUSY the next call goes on from it.
 * @return GLEX_REQ_DONE, GLEX_REQ_BUSY, or the status of an error request.
 */
int glex_coll_receive(struct glex_endpoint *ep, uint64_t src, struct glex_coll_desc *desc,
                      uint64_t *step_p);

/* ---- data: coll_data.c ----------------------------------------------------------------------- */

bool glex_coll_reduce_is_valid(const void *data, uint32_t len);

/** Combine data with a result of the same operation, width and count; else false. */
bool glex_coll_reduce_combine(void *result, uint32_t result_len, const void *data, uint32_t len);

#endif
