#include "debug/fault.h"
#include "base/env.h"
#include "core/shm.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* A delayed message waits for later requests. A program that waits for an answer may post no
 * further request. So an empty poll also sends the message after this time. */
#define FAULT_DELAY_NS 100000

/* A delayed message. */
struct fault_delayed {
    struct fault_delayed *next;
    uint64_t due; /* goes after so many requests of the endpoint */
    uint64_t posted_ns;
    glex_imm_mp_req_t req;
    uint8_t data[GLEX_MP_DATA_LEN];
};

struct glex_fault {
    const struct glex_fault_spec *spec;
    uint64_t random;
    uint64_t posts; /* requests so far */
    struct fault_delayed *delayed;
};

/* Requests of all endpoints of the process, for kill=N. */
static uint64_t fault_posts;

/* ---- chance ---------------------------------------------------------------------------------- */

static bool fault_happens(struct glex_fault *fault, double probability)
{
    if (probability == 0.0) {
        return false;
    }
    /* xorshift64*: the same seed gives the same faults */
    fault->random ^= fault->random >> 12;
    fault->random ^= fault->random << 25;
    fault->random ^= fault->random >> 27;
    return (double)((fault->random * 0x2545f4914f6cdd1dull) >> 11) * 0x1p-53 < probability;
}

/* Without a seed every run is another. With one, the n-th endpoint of each process is the same. */
static uint64_t fault_seed(const struct glex_endpoint *ep, const struct glex_fault_spec *spec)
{
    static uint64_t num_eps;
    uint64_t n = __atomic_add_fetch(&num_eps, 1, __ATOMIC_RELAXED);

    return (spec->seed != 0 ? spec->seed * 0x9e3779b97f4a7c15ull + n : ep->segment.incarnation) | 1;
}

/* ---- delayed messages ------------------------------------------------------------------------ */

static int fault_mp_at(struct glex_endpoint *ep, struct glex_peer *peer, const void *req)
{
    return glex_shm_send_mp(ep, peer, req);
}

/* @return false: the destination's MPQ is full, and the message must not be lost. */
static bool fault_send(struct glex_endpoint *ep, const glex_imm_mp_req_t *req)
{
    int status = glex_endpoint_post(ep, req->rmt_ep_addr, fault_mp_at, req);

    if (status != GLEX_REQ_DONE && status != GLEX_REQ_BUSY) {
        glex_error_mp(ep, status, req);
    }
    return status != GLEX_REQ_BUSY;
}

/* Sends messages that are due after `posts` requests or were posted at `time_ns` or before. The
 * list is in the order of posting. */
static void fault_send_due(struct glex_endpoint *ep, uint64_t posts, uint64_t time_ns)
{
    struct fault_delayed *delayed, **link = &ep->fault->delayed;

    while ((delayed = *link) != NULL) {
        if ((delayed->due <= posts || delayed->posted_ns <= time_ns) &&
            fault_send(ep, &delayed->req)) {
            *link = delayed->next;
            free(delayed);
        } else {
            link = &delayed->next;
        }
    }
}

void glex_fault_flush(struct glex_endpoint *ep)
{
    if (ep->fault != NULL) {
        fault_send_due(ep, UINT64_MAX, 0);
    }
}

uint32_t glex_fault_patience(const struct glex_endpoint *ep)
{
    const struct glex_fault *fault = ep->fault;
    bool delays = fault != NULL && (fault->spec->mp_delay > 0 || fault->spec->mp_reorder > 0);

    return delays ? 32 : GLEX_RING_PATIENCE;
}

void glex_fault_idle(struct glex_endpoint *ep)
{
    if (ep->fault != NULL && ep->fault->delayed != NULL) {
        fault_send_due(ep, 0, glex_now_ns() - FAULT_DELAY_NS);
    }
}

static int fault_delay(struct glex_endpoint *ep, const glex_imm_mp_req_t *req, uint64_t posts)
{
    struct fault_delayed *delayed = malloc(sizeof(*delayed)), **link = &ep->fault->delayed;

    if (delayed == NULL) {
        return GLEX_REQ_BUSY;
    }
    delayed->next = NULL;
    delayed->due = ep->fault->posts + posts;
    delayed->posted_ns = glex_now_ns();
    delayed->req = *req;
    delayed->req.data = delayed->data;
    glex_copy_small(delayed->data, req->data, req->len);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = delayed;
    return GLEX_REQ_DONE;
}

/* ---- the link -------------------------------------------------------------------------------- */

int glex_fault_enter(struct glex_endpoint *ep)
{
    const struct glex_fault_spec *spec = ep->fault->spec;

    if (fault_happens(ep->fault, spec->busy)) {
        return GLEX_REQ_BUSY;
    }
    if (spec->kill != 0 && __atomic_add_fetch(&fault_posts, 1, __ATOMIC_RELAXED) == spec->kill) {
        kill(getpid(), SIGKILL);
    }
    ep->fault->posts++;
    return GLEX_REQ_DONE;
}

/* After a request: sends the due delayed messages. Not if the request's peer is gone, because the
 * caller then posts the request once more. */
static int fault_leave(struct glex_endpoint *ep, int status)
{
    if (status != GLEX_REQ_PEER_GONE) {
        fault_send_due(ep, ep->fault->posts, 0);
    }
    return status;
}

/* A full queue loses the request, or refuses one that must not be lost. */
static int fault_full(int32_t flag, enum glex_err_req_status status)
{
    return (flag & GLEX_EXT_FLAG_NO_LOSS) ? GLEX_REQ_BUSY : (int)status;
}

static int fault_send_mp(struct glex_endpoint *ep, struct glex_peer *peer,
                         const glex_imm_mp_req_t *req)
{
    const struct glex_fault_spec *spec = ep->fault->spec;
    int status = glex_fault_enter(ep);

    if (status != GLEX_REQ_DONE) {
        return status;
    }
    if (fault_happens(ep->fault, spec->mpq_full)) {
        status = fault_full(req->flag, GLEX_ERR_STATUS_DEST_MPQ_FULL);
    } else if (fault_happens(ep->fault, spec->mp_loss)) {
        status = GLEX_REQ_DONE;
    } else if (fault_happens(ep->fault, spec->mp_delay)) {
        status = fault_delay(ep, req, spec->mp_delay_posts);
    } else if (fault_happens(ep->fault, spec->mp_reorder)) {
        status = fault_delay(ep, req, 1);
    } else {
        status = glex_shm_send_mp(ep, peer, req);
    }
    return fault_leave(ep, status);
}

/* As glex_fault_enter(), of a request that may have an event: where the destination's EQ seems full
 * the event is taken out of its flags. */
static int fault_enter_event(struct glex_endpoint *ep, int32_t *flag)
{
    int status = glex_fault_enter(ep);

    if (status == GLEX_REQ_DONE && (*flag & GLEX_FLAG_REMOTE_EVT) &&
        fault_happens(ep->fault, ep->fault->spec->eq_full)) {
        *flag &= ~GLEX_FLAG_REMOTE_EVT;
    }
    return status;
}

/* As fault_leave(): the request had the flags `asked`, and was executed with `done`. */
static int fault_leave_event(struct glex_endpoint *ep, int status, int32_t asked, int32_t done)
{
    if (status == GLEX_REQ_DONE && asked != done) {
        status = fault_full(asked, GLEX_ERR_STATUS_DEST_EQ_FULL);
    }
    return fault_leave(ep, status);
}

static int fault_imm_put(struct glex_endpoint *ep, struct glex_peer *peer,
                         const glex_imm_rdma_req_t *req)
{
    glex_imm_rdma_req_t copy = *req;
    int status = fault_enter_event(ep, &copy.flag);

    return status != GLEX_REQ_DONE ?
               status :
               fault_leave_event(ep, glex_shm_imm_put(ep, peer, &copy), req->flag, copy.flag);
}

static int fault_event(struct glex_endpoint *ep, struct glex_peer *peer,
                       const glex_imm_rdma_req_t *req)
{
    int32_t flag = req->flag;
    int status = fault_enter_event(ep, &flag);

    if (status != GLEX_REQ_DONE) {
        return status;
    }
    if (flag & GLEX_FLAG_REMOTE_EVT) {
        status = glex_shm_post_event(ep, peer, req);
    }
    return fault_leave_event(ep, status, req->flag, flag);
}

static int fault_rdma(struct glex_endpoint *ep, struct glex_peer *peer, const glex_rdma_req_t *req,
                      char *local)
{
    glex_rdma_req_t copy = *req;
    int status = fault_enter_event(ep, &copy.flag);

    return status != GLEX_REQ_DONE ?
               status :
               fault_leave_event(ep, glex_shm_rdma(ep, peer, &copy, local), req->flag, copy.flag);
}

const struct glex_link glex_fault_link = {
    .name = "fault",
    .reaches = glex_shm_reaches,
    .attach = glex_shm_attach,
    .detach = glex_shm_detach,
    .is_living = glex_shm_is_living,
    .send_mp = fault_send_mp,
    .imm_put = fault_imm_put,
    .event = fault_event,
    .rdma = fault_rdma,
};

/* ---- with the endpoint ----------------------------------------------------------------------- */

glex_ret_t glex_fault_init(struct glex_endpoint *ep)
{
    const struct glex_fault_spec *spec = &glex_env()->fault;

    if (!spec->on) {
        return GLEX_SUCCESS;
    }
    ep->fault = calloc(1, sizeof(*ep->fault));
    if (ep->fault == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    ep->fault->spec = spec;
    ep->fault->random = fault_seed(ep, spec);
    return GLEX_SUCCESS;
}

void glex_fault_cleanup(struct glex_endpoint *ep)
{
    struct fault_delayed *delayed;

    glex_fault_flush(ep);
    while (ep->fault != NULL && (delayed = ep->fault->delayed) != NULL) {
        ep->fault->delayed = delayed->next; /* for a queue that stayed full */
        free(delayed);
    }
    free(ep->fault);
    ep->fault = NULL;
}
