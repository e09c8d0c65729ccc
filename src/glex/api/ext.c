/*
 * Functions of glex_ext.h for endpoints: pointers to peers' memory, sleeping, liveness, counters.
 */
#include "api/api.h"
#include "base/env.h"
#include "core/shm.h"
#include "net/net.h"

#include <openglex.h> /* PACKAGE_VERSION */

/* The return value for the status of a request that was not posted. */
static glex_ret_t ext_ret(int status)
{
    switch (status) {
    case GLEX_REQ_DONE:
        return GLEX_SUCCESS;
    case GLEX_ERR_STATUS_CONNECTION_NACK:
        return GLEX_NO_MEM_RESOURCE;
    case GLEX_REQ_PEER_GONE:
    case GLEX_ERR_STATUS_DEST_VP_STOP:
    case GLEX_ERR_STATUS_DEST_HOST_DEAD:
        return GLEX_NO_EP_RESOURCE;
    default:
        return GLEX_ACCESS_ERR;
    }
}

/* A registration of a peer on this host, and the peer. */
static glex_ret_t ext_rmem(struct glex_endpoint *ep, glex_ep_addr_t peer_addr, glex_mem_handle_t mh,
                           uint32_t key, uint64_t offset, uint64_t len, struct glex_peer **peer_p,
                           struct glex_rmem **rmem_p)
{
    int status;

    *peer_p = glex_endpoint_peer(ep, glex_peer_addr(peer_addr), &status);
    if (*peer_p == NULL) {
        return ext_ret(status);
    }
    if ((*peer_p)->link->is_remote) {
        return GLEX_NOT_IMPLEMENTED;
    }
    if (offset + len < len) {
        return GLEX_ACCESS_ERR;
    }
    status = glex_shm_rmem(ep, *peer_p, mh.v, key, offset, len, 0, rmem_p);
    return ext_ret(status);
}

glex_ret_t glex_ext_peer_ptr(glex_ep_handle_t handle, glex_ep_addr_t peer_addr,
                             glex_mem_handle_t mh, uint32_t key, uint64_t offset, uint64_t len,
                             void **ptr_p, struct glex_ext_pin **pin_p)
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
    if (ret == GLEX_SUCCESS) {
        ret = ext_ret(glex_shm_rmem_map(ep, peer, rmem));
    }
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    if (rmem->ptr == NULL || !(ep->dev->caps.caps & GLEX_EXT_CAP_MAP)) {
        return GLEX_NOT_IMPLEMENTED;
    }
    *ptr_p = rmem->ptr + offset;
    if (pin_p != NULL) {
        *pin_p = rmem->map == NULL ? NULL : glex_mapping_pin(rmem->map);
    }
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
    watch->word = rmem->word;
    watch->state = rmem->state;
    watch->pin = peer->map == NULL ? NULL : glex_mapping_pin(peer->map);
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

static bool ext_is_remote(struct glex_endpoint *ep, uint64_t addr)
{
    const struct glex_link *link = glex_endpoint_link(ep, addr);

    return link != NULL && link->is_remote;
}

int glex_ext_is_remote(glex_ep_handle_t handle, glex_ep_addr_t peer_addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    return handle != NULL && !ep->forked && ext_is_remote(ep, glex_peer_addr(peer_addr));
}

/* release: a peer that reads the new name finds the queues as they were set before. */
static void ext_publish_receiver(struct glex_endpoint *ep, uint64_t uuid)
{
    __atomic_store_n(&ep->segment.hdr->receiver, uuid, __ATOMIC_RELEASE);
}

/* The receiver goes: the queues refuse first, then connections end, and its name vanishes last. */
static void ext_close_receiver(struct glex_endpoint *ep)
{
    glex_ring_set_receiver(&ep->mpq, false);
    glex_ring_set_receiver(&ep->eq, false);
    glex_endpoint_flush(ep, glex_env()->net_timeout * 1000);
    glex_net_pause(ep);
    ext_publish_receiver(ep, 0);
}

static glex_ret_t ext_open_receiver(struct glex_endpoint *ep, uint64_t uuid)
{
    glex_ring_set_receiver(&ep->mpq, true);
    glex_ring_set_receiver(&ep->eq, true);
    ext_publish_receiver(ep, uuid);
    return glex_net_resume(ep);
}

glex_ret_t glex_ext_set_receiver(glex_ep_handle_t handle, uint64_t uuid)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    if (uuid != 0) {
        return ext_open_receiver(ep, uuid);
    }
    ext_close_receiver(ep);
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_has_receiver(glex_ep_handle_t handle, glex_ep_addr_t peer_addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    bool refuses;
    int status;

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    peer = glex_endpoint_peer(ep, glex_peer_addr(peer_addr), &status);
    if (peer == NULL) {
        return GLEX_NO_EP_RESOURCE;
    }
    refuses =
        peer->link->is_remote ? !peer->link->is_living(ep, peer) : glex_ring_refuses(&peer->mpq);
    return refuses ? GLEX_NO_EP_RESOURCE : GLEX_SUCCESS;
}

/* The peer at an address, if the system says that it lives. To ask about the successor of a peer on
 * another host is to connect, which ends later, so a dead peer there is not replaced. */
static struct glex_peer *ext_living_peer(struct glex_endpoint *ep, uint64_t addr, int *status_p)
{
    struct glex_peer *peer = glex_endpoint_peer(ep, addr, status_p);

    if (peer == NULL || peer->link->is_living(ep, peer)) {
        return peer;
    }
    *status_p = GLEX_ERR_STATUS_DEST_VP_STOP;
    if (peer->link->is_remote) {
        return NULL;
    }
    glex_peer_drop(ep, peer);
    return glex_endpoint_peer(ep, addr, status_p);
}

/* Whether a peer on this host has the receiver that is meant. acquire: pairs with the release of
 * ext_publish_receiver(). */
static glex_ret_t ext_check_receiver(const struct glex_peer *peer, uint64_t uuid)
{
    uint64_t present = __atomic_load_n(&peer->base->receiver, __ATOMIC_ACQUIRE);

    if (present == 0) {
        return GLEX_NO_EP_RESOURCE;
    }
    return uuid == 0 || uuid == present ? GLEX_SUCCESS : GLEX_ACCESS_ERR;
}

glex_ret_t glex_ext_check_peer(glex_ep_handle_t handle, glex_ep_addr_t peer_addr, uint64_t uuid,
                               uint64_t epoch)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    uint64_t addr = glex_peer_addr(peer_addr);
    struct glex_peer *peer;
    int status;

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    if (epoch != 0 && ext_is_remote(ep, addr)) {
        return glex_net_epoch_is_over(ep, addr, epoch) ? GLEX_NO_EP_RESOURCE : GLEX_SUCCESS;
    }
    peer = ext_living_peer(ep, addr, &status);
    if (peer == NULL) {
        /* a lack of this process says nothing about the peer */
        return status == GLEX_ERR_STATUS_CONNECTION_NACK ? GLEX_SUCCESS : GLEX_NO_EP_RESOURCE;
    }
    if (epoch != 0 && epoch != peer->incarnation) {
        return GLEX_NO_EP_RESOURCE;
    }
    return peer->link->is_remote ? GLEX_SUCCESS : ext_check_receiver(peer, uuid);
}

/* An endpoint without a receiver had one, so its name at the time of the attachment counts, too */
static bool ext_is_of(const struct glex_peer_past *past, uint64_t uuid)
{
    return uuid == 0 || past->receivers[0] == uuid || past->receivers[1] == uuid;
}

/* The peer of a receiver, if it was detached. The newest first. */
static const struct glex_peer_past *ext_past_peer(const struct glex_peer_table *table,
                                                  uint64_t addr, uint64_t uuid)
{
    const struct glex_peer_past *past;
    uint32_t i;

    for (i = 1; i <= GLEX_PEER_PAST && i <= table->num_past; i++) {
        past = &table->past[(table->num_past - i) % GLEX_PEER_PAST];
        if (past->addr == addr && ext_is_of(past, uuid)) {
            return past;
        }
    }
    return NULL;
}

static enum glex_ext_process_state ext_process_state(uint32_t left, bool is_living)
{
    switch (left) {
    case GLEX_LEFT_NOT:
        return is_living ? GLEX_EXT_PROCESS_RUNS : GLEX_EXT_PROCESS_KILLED;
    case GLEX_LEFT_CLOSED:
        return GLEX_EXT_PROCESS_CLOSED;
    default:
        return GLEX_EXT_PROCESS_EXITED;
    }
}

glex_ret_t glex_ext_peer_process(glex_ep_handle_t handle, glex_ep_addr_t peer_addr, uint64_t uuid,
                                 struct glex_ext_process *process)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    uint64_t addr = glex_peer_addr(peer_addr);
    const struct glex_peer_past *past;
    struct glex_peer_past present;
    struct glex_peer *peer;
    bool is_living = false;

    if (handle == NULL || process == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    if (ext_is_remote(ep, addr)) {
        return GLEX_NOT_IMPLEMENTED;
    }
    peer = glex_peer_lookup(&ep->peers, addr);
    if (peer != NULL) {
        glex_peer_describe(peer, &present);
        is_living = peer->link->is_living(ep, peer);
    }
    if (peer != NULL && ext_is_of(&present, uuid)) {
        past = &present;
    } else if ((past = ext_past_peer(&ep->peers, addr, uuid)) == NULL) {
        return GLEX_NO_EP_RESOURCE;
    }
    process->pid = past->pid;
    process->rank = past->rank;
    process->state = ext_process_state(past->left, is_living);
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_peer_epoch(glex_ep_handle_t handle, glex_ep_addr_t peer_addr, uint64_t *epoch_p)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    uint64_t addr = glex_peer_addr(peer_addr), epoch = 0;
    struct glex_peer *peer;
    int status;

    if (handle == NULL || epoch_p == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    if (ext_is_remote(ep, addr)) {
        epoch = glex_net_epoch(ep, addr, &status);
    } else if ((peer = ext_living_peer(ep, addr, &status)) != NULL) {
        epoch = peer->incarnation;
    }
    if (epoch == 0) {
        return ext_ret(status);
    }
    *epoch_p = epoch;
    return GLEX_SUCCESS;
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

glex_ret_t glex_ext_count_messages(glex_ep_handle_t handle, enum glex_ext_message kind,
                                   uint64_t messages, uint64_t bytes)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (handle == NULL) {
        return GLEX_INVALID_PARAM;
    }
    switch (kind) {
    case GLEX_EXT_MESSAGE_MAPPED:
        GLEX_COUNT(ep, mapped_tx, messages);
        GLEX_COUNT(ep, mapped_bytes, bytes);
        return GLEX_SUCCESS;
    case GLEX_EXT_MESSAGE_BUFFERED:
        GLEX_COUNT(ep, buffered_tx, messages);
        GLEX_COUNT(ep, buffered_bytes, bytes);
        return GLEX_SUCCESS;
    case GLEX_EXT_MESSAGE_ZCOPY:
        GLEX_COUNT(ep, zcopy_tx, messages);
        GLEX_COUNT(ep, zcopy_bytes, bytes);
        return GLEX_SUCCESS;
    default:
        return GLEX_INVALID_PARAM;
    }
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
