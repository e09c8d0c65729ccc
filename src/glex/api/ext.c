/*
 * What glex_ext.h adds about endpoints: pointers to peers' memory, sleeping, liveness, counters.
 */
#include "api/api.h"
#include "base/env.h"
#include "core/shm.h"
#include "net/net.h"

#include <openglex.h> /* PACKAGE_VERSION */

/* A registration of a peer on this host, and the peer. */
static glex_ret_t ext_rmem(struct glex_endpoint *ep, glex_ep_addr_t peer_addr, glex_mem_handle_t mh,
                           uint32_t key, uint64_t offset, uint64_t len, struct glex_peer **peer_p,
                           struct glex_rmem **rmem_p)
{
    int status;

    *peer_p = glex_endpoint_peer(ep, glex_peer_addr(peer_addr), &status);
    if (*peer_p == NULL) {
        return GLEX_NO_EP_RESOURCE;
    }
    if ((*peer_p)->link->is_remote) {
        return GLEX_NOT_IMPLEMENTED;
    }
    if (offset + len < len) {
        return GLEX_ACCESS_ERR;
    }
    status = glex_shm_rmem(ep, *peer_p, mh.v, key, offset, len, 0, rmem_p);
    if (status != GLEX_REQ_DONE) {
        return status == GLEX_REQ_PEER_GONE ? GLEX_NO_EP_RESOURCE : GLEX_ACCESS_ERR;
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_peer_ptr(glex_ep_handle_t handle, glex_ep_addr_t peer_addr,
                             glex_mem_handle_t mh, uint32_t key, uint64_t offset, uint64_t len,
                             void **ptr_p)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    struct glex_rmem *rmem;
    glex_ret_t ret;

    if (handle == NULL || ptr_p == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    ret = ext_rmem(ep, peer_addr, mh, key, offset, len, &peer, &rmem);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    if (rmem->ptr == NULL || !(ep->dev->caps.caps & GLEX_EXT_CAP_MAP)) {
        return GLEX_NOT_IMPLEMENTED;
    }
    if (rmem->map != NULL) {
        glex_peer_pin(peer, rmem->map);
    }
    *ptr_p = rmem->ptr + offset;
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_peer_watch(glex_ep_handle_t handle, glex_ep_addr_t peer_addr,
                               glex_mem_handle_t mh, uint32_t key, struct glex_ext_watch *watch)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    struct glex_rmem *rmem;
    glex_ret_t ret;

    if (handle == NULL || watch == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    ret = ext_rmem(ep, peer_addr, mh, key, 0, 0, &peer, &rmem);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    if (!glex_peer_pin_base(peer)) {
        return GLEX_NO_MEM_RESOURCE;
    }
    watch->word = rmem->word;
    watch->state = rmem->state;
    return GLEX_SUCCESS;
}

glex_ep_addr_t glex_ext_peer_hint(glex_ep_handle_t handle, glex_ep_addr_t peer_addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    int status;

    peer_addr.v = glex_peer_addr(peer_addr);
    if (handle == NULL || ep->forked) {
        return peer_addr;
    }
    GLEX_LOCKED(ep);
    peer = glex_endpoint_peer(ep, peer_addr.v, &status);
    if (peer != NULL) {
        peer_addr.v = glex_peer_hinted_addr(peer);
    }
    return peer_addr;
}

glex_ret_t glex_ext_set_domain(glex_ep_handle_t handle, glex_ep_handle_t domain)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (handle == NULL || ep->forked || handle == domain) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    ep->domain = domain == NULL ? NULL : glex_endpoint(domain);
    return GLEX_SUCCESS;
}

int glex_ext_is_remote(glex_ep_handle_t handle, glex_ep_addr_t peer_addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    const struct glex_link *link;

    if (handle == NULL || ep->forked) {
        return 0;
    }
    link = glex_endpoint_link(ep, glex_peer_addr(peer_addr));
    return link != NULL && link->is_remote;
}

/* Whether a peer refuses messages, as far as one can tell: of another host only that it ended. */
static bool ext_refuses(struct glex_endpoint *ep, const struct glex_peer *peer)
{
    return peer->link->is_remote ? !peer->link->is_living(ep, peer) : glex_ring_refuses(&peer->mpq);
}

glex_ret_t glex_ext_set_receiver(glex_ep_handle_t handle, int present)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    glex_ring_set_receiver(&ep->mpq, present);
    glex_ring_set_receiver(&ep->eq, present);
    if (present) {
        return glex_net_resume(ep);
    }
    glex_endpoint_flush(ep, glex_env()->net_timeout * 1000);
    glex_net_pause(ep);
    return GLEX_SUCCESS;
}

/* Whether a peer takes messages; `ask`: the system is asked whether it lives, and one that is
 * gone is let go of. */
static glex_ret_t ext_check(glex_ep_handle_t handle, glex_ep_addr_t peer_addr, bool ask)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    int status;

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    peer = glex_endpoint_peer(ep, glex_peer_addr(peer_addr), &status);
    if (peer == NULL) {
        return GLEX_NO_EP_RESOURCE;
    }
    if (ask && !peer->link->is_living(ep, peer)) {
        /* To look for another one at the address of a peer on another host is to connect, which
         * ends later: whoever asks again would be told that there is one. The next request does
         * it. */
        if (!peer->link->is_remote) {
            glex_peer_drop(ep, peer);
        }
        return GLEX_NO_EP_RESOURCE;
    }
    return ext_refuses(ep, peer) ? GLEX_NO_EP_RESOURCE : GLEX_SUCCESS;
}

glex_ret_t glex_ext_has_receiver(glex_ep_handle_t handle, glex_ep_addr_t peer_addr)
{
    return ext_check(handle, peer_addr, false);
}

glex_ret_t glex_ext_check_peer(glex_ep_handle_t handle, glex_ep_addr_t peer_addr)
{
    return ext_check(handle, peer_addr, true);
}

glex_ret_t glex_ext_forget_peer(glex_ep_handle_t handle, glex_ep_addr_t peer_addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    uint64_t addr = glex_peer_addr(peer_addr);
    struct glex_peer *peer;
    bool living;

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    peer = glex_peer_lookup(&ep->peers, addr);
    living = peer != NULL && peer->link->is_living(ep, peer);
    if (peer != NULL && !living) {
        glex_peer_drop(ep, peer);
    }
    /* Release memory of gone peers only: a new process may already have a dead one's address. */
    glex_peer_release(ep, addr);
    if (living) {
        return GLEX_BUSY;
    }
    /* A peer that is just ending may be attached once more, by an answer to a message of it. */
    return glex_segment_exists(ep->dev->dirfd, addr) ? GLEX_BUSY : GLEX_SUCCESS;
}

glex_ret_t glex_ext_query_queues(glex_ep_handle_t handle, struct glex_ext_queues *queues)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (handle == NULL || queues == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    queues->events_arrived = glex_ring_arrived(&ep->eq);
    queues->events_taken = ep->eq.cursor;
    queues->mps_arrived = glex_ring_arrived(&ep->mpq);
    queues->mps_taken = ep->mpq.cursor;
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_count_mapped(glex_ep_handle_t handle, uint64_t messages)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (handle == NULL) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_COUNT(ep, mapped_tx, messages);
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_query_counters(glex_ep_handle_t handle, struct glex_ext_counters *counters)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (handle == NULL || counters == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    glex_ring_note_level(&ep->mpq, &ep->counters->mpq_high);
    glex_ring_note_level(&ep->eq, &ep->counters->eq_high);
    *counters = *ep->counters;
    return GLEX_SUCCESS;
}

const char *glex_ext_version(void)
{
    return PACKAGE_VERSION;
}
