/* A peer's collective area: storage, views, and the list of areas that a call must still serve. */
#include "base/log.h"
#include "coll/coll.h"

#include <unistd.h>

/* Reserves storage for a peer's area. A second reservation changes
 * nothing, so no state is needed in the area, which any process may write. */
static int carry_reserve(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t off)
{
    struct glex_segment_header hdr;
    int fd, err;

    if (glex_segment_open(ep->dev->dirfd, peer->addr, &hdr, &fd) != GLEX_SEGMENT_LIVING) {
        return GLEX_REQ_PEER_GONE;
    }
    err = hdr.incarnation == peer->incarnation && peer->base_size == off + GLEX_COLL_SIZE ?
              glex_segment_reserve(fd, 0, off, GLEX_COLL_SIZE) :
              -1;
    close(fd);
    if (err < 0) {
        return GLEX_REQ_PEER_GONE;
    }
    if (err > 0) {
        glex_error("cannot reserve %u KiB for the collectives of endpoint %llx: %s; %s",
                   GLEX_COLL_SIZE / 1024, (unsigned long long)peer->addr, strerror(err),
                   glex_segment_reserve_advice(err));
        return GLEX_ERR_STATUS_CONNECTION_NACK;
    }
    return GLEX_REQ_DONE;
}

int glex_coll_enable(struct glex_endpoint *ep, struct glex_peer *peer)
{
    uint64_t off;
    int status;

    if (glex_likely(peer->coll.area != NULL)) {
        return GLEX_REQ_DONE;
    }
    off = glex_coll_off((uint32_t)peer->mpq.mask + 1, (uint32_t)peer->eq.mask + 1);
    status = carry_reserve(ep, peer, off);
    if (status != GLEX_REQ_DONE) {
        return status;
    }
    peer->coll.area = (struct glex_coll *)((char *)peer->base + off);
    glex_ring_tx_init(&peer->coll.cpq, glex_coll_cpq(peer->coll.area), GLEX_COLL_CPQ_CAPACITY,
                      glex_ring_id(peer->incarnation, GLEX_RING_CPQ), &ep->segment.hdr->intent);
    return GLEX_REQ_DONE;
}

void glex_coll_notify(struct glex_coll_work *work, struct glex_peer *peer)
{
    /* seq_cst, as the load of `agent` in carry_claim(): see coll.h */
    __atomic_store_n(&peer->coll.area->pending, 1, __ATOMIC_SEQ_CST);
    if (work == NULL || peer->coll.busy) {
        return; /* the area is in the list already, or its agent reads `pending` before it leaves */
    }
    peer->coll.busy = true;
    STAILQ_INSERT_TAIL(&work->peers, peer, coll.entry);
}
