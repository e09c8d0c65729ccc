/*
 * Collective offload. A request waits at an endpoint for control packets (CP). The process that
 * delivers the last CP carries the request out, so the owner of the endpoint may compute meanwhile.
 *
 * Each segment has an area with descriptors of requests and with the CPs (coll_layout.h). A process
 * that adds a descriptor or a CP sets `pending`, then tries to become the *agent* by a
 * compare-and-swap on `agent`. The agent executes every request that is ready. If another process is
 * the agent, the caller returns. The agent resets `agent`, reads `pending` again, and finds the
 * caller's entry.
 *
 *   agent:  agent = me (else return); pending = 0; carry; agent = 0; again if pending is set
 *   other:  add an entry; pending = 1; if agent is 0, become agent
 *
 * The agent stores `agent` and loads `pending`. The other process stores `pending` and loads
 * `agent`. All four accesses are sequentially consistent, so at least one load returns the new
 * value, and no entry stays unseen.
 *
 * An agent that delivers CPs to other areas becomes the agent of these areas next. A list of areas
 * replaces recursion. An agent lives as long as one library call of one endpoint. If the agent is
 * killed, the next call of the area's owner takes its place (coll.c) and reads in `step` how far the
 * agent was.
 *
 * A producer publishes each entry before it claims the next one, because an intent names one
 * position only (shm/ring.h). A request that is refused has left no entry in any queue.
 *
 * Files, from the top: coll.c (the owner) > coll_carry.c (the agent) > coll_send.c (one request) >
 * coll_area.c (an area), coll_data.c (data of reductions).
 */
#ifndef GLEX_COLL_H
#define GLEX_COLL_H

#include "core/endpoint.h"
#include "shm/coll_layout.h"

/* Beside GLEX_REQ_*: only the owner itself can carry out this request. */
#define GLEX_COLL_OWNER (-4)

/* Beside the kinds of an area's descriptors: a Get, of which glex_coll_error() knows, too. */
#define GLEX_COLL_GET GLEX_COLL_KINDS

/* Most CPs that a sequence can wait for. The rest of the CPQ is room for CPs of later sequences. */
#define GLEX_COLL_MAX_COUNT (GLEX_COLL_CPQ_CAPACITY / 2)

/* Flags of packets that carry data beside a put. */
#define GLEX_COLL_WITH_DATA                                                                        \
    (GLEX_FLAG_COLL_CP_DATA | GLEX_FLAG_COLL_CP_SWAP_DATA | GLEX_FLAG_COLL_CP_SWAP_ADDR)

/* Most queued requests that one call executes. */
#define GLEX_COLL_BUDGET 16384u

/* Empty polls before an owner continues its collectives. The number is small for programs that poll
 * seldom. */
#define GLEX_COLL_PATIENCE 32u

/* Flags that the destination of a request executes. */
#define GLEX_COLL_AT_TARGET                                                                        \
    (GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_COLL_CP_DATA | GLEX_FLAG_COLL_CP_SWAP_DATA |               \
     GLEX_FLAG_COLL_CP_SWAP_ADDR)

/** The areas that a library call must still serve. */
struct glex_coll_work {
    struct glex_endpoint *ep;       /* the endpoint of the call */
    STAILQ_HEAD(, glex_peer) peers; /* the owners of the areas */
    uint32_t budget;                /* requests that the call may still carry out */
};

/** A request in execution. */
struct glex_coll_send {
    struct glex_coll_work *work;
    struct glex_endpoint *ep;    /* carries the request out */
    struct glex_peer *owner;     /* owns the request; may be `ep` itself */
    uint64_t src;                /* address of the endpoint that posted the request: the owner, or
                                     an endpoint of another host */
    struct glex_coll_desc *desc; /* a private, checked copy, with the data that CPs offered */
    uint64_t *step_p;            /* GLEX_COLL_STEP() of the request, for the next agent */
    uint64_t step;
    bool remote; /* the network ends the request, and posts its local event */
    uint64_t set[GLEX_COLL_SET_MAX_NUM];
    uint32_t num_set; /* 0: the destination is desc->dst */
};

/* ---- the owner's side: coll.c ---------------------------------------------------------------- */

/** Take a request with GLEX_FLAG_COLL. */
glex_ret_t glex_coll_post_mp(struct glex_endpoint *ep, const glex_imm_mp_req_t *req);
glex_ret_t glex_coll_post_imm_rdma(struct glex_endpoint *ep, const glex_imm_rdma_req_t *req);
glex_ret_t glex_coll_post_rdma(struct glex_endpoint *ep, const glex_rdma_req_t *req);

/** Frees the collective state, after a last attempt to finish the last request. */
void glex_coll_cleanup(struct glex_endpoint *ep);

/** Makes the error requests of descriptors that agents have executed. */
void glex_coll_reap(struct glex_endpoint *ep);

/** Makes the error request of a descriptor. */
void glex_coll_error(struct glex_endpoint *ep, const struct glex_coll_desc *desc, int status);

/** Called when polls find nothing. Continues requests that agents could not finish, and replaces an
 *  agent that died. */
void glex_coll_idle(struct glex_endpoint *ep);

/** Whether an endpoint of this process may have posted a sequence. */
bool glex_coll_is_used(void);

/** Whether glex_coll_idle() may have something to do: do not sleep. */
bool glex_coll_is_pending(const struct glex_endpoint *ep);

/* ---- a peer's area: coll_area.c -------------------------------------------------------------- */

/** Reserves storage for a peer's area and sets up its views. Returns GLEX_REQ_DONE or a status. */
int glex_coll_enable(struct glex_endpoint *ep, struct glex_peer *peer);

/** Adds a peer's area, which has a new entry, to the list of a call. If `work` is NULL, the area's
 * owner serves its area at its next idle poll. */
void glex_coll_notify(struct glex_coll_work *work, struct glex_peer *peer);

/* ---- carrying: coll_carry.c ------------------------------------------------------------------ */

/** Serves all areas of the list, and areas that are added meanwhile. */
void glex_coll_run(struct glex_coll_work *work);

/** Passes over a claimed CP whose producer was killed before it published the CP. The owner does
 *  this as agent, because the agent is the consumer of the CPQ. */
void glex_coll_pass_over(struct glex_endpoint *ep);

/** Returns whether a descriptor, whose flags are known, can be executed. */
bool glex_coll_is_valid(const struct glex_coll_desc *desc);

/* ---- one request: coll_send.c ---------------------------------------------------------------- */

/* The first stage of coll_send.c in GLEX_COLL_STEP(). Lower stages belong to coll_carry.c. */
#define GLEX_COLL_STAGE_SEND 8u

/** Takes the request's own data as the set of its destinations. The data to send is the data that a
 *  CP offered. */
void glex_coll_take_set(struct glex_coll_send *send);

/**
 * Carries a request out, from its step on.
 * @return GLEX_REQ_DONE; GLEX_REQ_BUSY or GLEX_COLL_OWNER if it is to be continued; or the status of
 * an error request. If the step has not changed, the request has left no entry in any queue.
 */
int glex_coll_send(struct glex_coll_send *send);

/**
 * Executes a request that came over the network, at its target `ep`. The memory of a GLEX_COLL_PUT
 * is already written.
 * @param desc    Has no flags except GLEX_COLL_AT_TARGET, REMOTE_EVT and NO_LOSS.
 * @param step_p  0 at the first call. After GLEX_REQ_BUSY the next call continues from this step.
 * @return GLEX_REQ_DONE, GLEX_REQ_BUSY, or the status of an error request.
 */
int glex_coll_receive(struct glex_endpoint *ep, uint64_t src, struct glex_coll_desc *desc,
                      uint64_t *step_p);

/* ---- data: coll_data.c ----------------------------------------------------------------------- */

bool glex_coll_reduce_is_valid(const void *data, uint32_t len);

/** Combines data with a result. Returns false if operation, width or count differ. */
bool glex_coll_reduce_combine(void *result, uint32_t result_len, const void *data, uint32_t len);

#endif
