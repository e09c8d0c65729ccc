/*
 * New connections of a known address. The new peer replaces the old one: entries of address vectors
 * mean the new peer, and unexpected messages of the old peer match receives that name the new one.
 * Receives that were posted for the old peer end with an error, as all its operations, because
 * messages may have been lost.
 */
#include "gfi_op.h"

static int gfi_peer_replace(struct gfi_peer *old, struct gfi_peer **peer_p)
{
    struct gfi_domain *domain = old->domain;
    unsigned moved;
    int ret;

    ret = gfi_peer_renew(old, peer_p);
    if (ret != 0) {
        return ret;
    }
    GFI_INFO(FI_LOG_EP_CTRL, "peer %u is connected again, as peer %u\n", old->id, (*peer_p)->id);
    gfi_peer_fail(old, FI_ECONNRESET);
    gfi_recv_fail_peer(old);
    gfi_recv_move_kept(old, *peer_p);
    moved = gfi_av_move_entries(domain, old, old->id, *peer_p, (*peer_p)->id);
    old->entries -= moved;
    (*peer_p)->entries += moved;
    return 0;
}

int gfi_peer_get_current(struct gfi_domain *domain, const struct gfi_addr *addr,
                         struct gfi_peer **peer_p)
{
    int ret = gfi_peer_get(domain, addr, peer_p);

    if (ret == 0 && (*peer_p)->error != 0 && !(*peer_p)->left) {
        ret = gfi_peer_replace(*peer_p, peer_p);
    }
    return ret;
}

int gfi_peer_on_hello(struct gfi_domain *domain, const struct gfi_addr *addr, uint32_t id,
                      struct gfi_peer **peer_p)
{
    int ret = gfi_peer_get(domain, addr, peer_p);

    if (ret != 0) {
        return ret;
    }
    if ((*peer_p)->ready && id <= gfi_header_peer((*peer_p)->header)) {
        return -FI_EALREADY; /* late, of an earlier connection */
    }
    return (*peer_p)->ready || (*peer_p)->error != 0 ? gfi_peer_replace(*peer_p, peer_p) : 0;
}
