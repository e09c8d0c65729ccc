#include "gfi_op.h"
#include "common/fnv.h"

#include <stdlib.h>
#include <string.h>

#define GFI_WATCH_PEERS 64u /* checked by one call at least */

/* ---- making ---- */

static uint64_t gfi_peer_hash(const struct gfi_addr *addr)
{
    return fnv1a(FNV_START, addr->bytes, sizeof(addr->bytes));
}

static int gfi_addr_check(const struct gfi_domain *domain, const struct gfi_addr *addr)
{
    if (addr->version != GFI_WIRE_VERSION || addr->device_len != domain->addr.device_len ||
        addr->iface_len != domain->addr.iface_len || addr->ep >= GFI_MAX_EPS) {
        GFI_WARN(FI_LOG_AV, "not an address of this version of the provider: is the other side of "
                            "the same version of openglex?\n");
        return -FI_EINVAL;
    }
    return 0;
}

static struct gfi_peer *gfi_peer_find(struct gfi_domain *domain, const struct gfi_addr *addr,
                                      uint64_t hash)
{
    struct gfi_peer *peer;
    uint64_t id;

    if (!gfi_map_get(&domain->peer_by_addr, hash, &id)) {
        return NULL;
    }
    while (id != GFI_NO_PEER) {
        peer = domain->peers[id];
        if (memcmp(peer->addr.bytes, addr->bytes, sizeof(addr->bytes)) == 0) {
            return peer;
        }
        id = peer->next_same;
    }
    return NULL;
}

static int gfi_peer_open_ep(struct gfi_peer *peer)
{
    const uct_device_addr_t *device = (const uct_device_addr_t *)peer->addr.bytes;
    const uct_iface_addr_t *iface =
        (const uct_iface_addr_t *)(peer->addr.bytes + peer->addr.device_len);
    uct_ep_params_t params;

    if (!uct_iface_is_reachable(peer->domain->uct.iface, device, iface)) {
        GFI_WARN(FI_LOG_AV,
                 "the NIC has no way to an address: another host without a link, "
                 "another GLEX_FABRIC, or a process that may not be read (see glex_info)\n");
        return -FI_EHOSTUNREACH;
    }
    params.field_mask =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = peer->domain->uct.iface;
    params.dev_addr = device;
    params.iface_addr = iface;
    return uct_ep_create(&params, &peer->uct_ep) == UCS_OK ? 0 : -FI_ENOMEM;
}

static int gfi_peers_reserve(struct gfi_domain *domain)
{
    uint32_t max = domain->max_peers == 0 ? 64 : 2 * domain->max_peers;
    struct gfi_peer **peers;

    if (domain->num_peers < domain->max_peers) {
        return 0;
    }
    if (domain->num_peers >= GFI_NO_PEER) {
        return -FI_ENOMEM;
    }
    peers = realloc(domain->peers, max * sizeof(*peers));
    if (peers == NULL) {
        return -FI_ENOMEM;
    }
    domain->peers = peers;
    domain->max_peers = max;
    return 0;
}

static int gfi_peer_new(struct gfi_domain *domain, const struct gfi_addr *addr, uint64_t hash,
                        struct gfi_peer **peer_p)
{
    uint64_t next_same = GFI_NO_PEER;
    struct gfi_peer *peer;
    int ret;

    ret = gfi_peers_reserve(domain);
    if (ret != 0) {
        return ret;
    }
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return -FI_ENOMEM;
    }
    peer->domain = domain;
    peer->addr = *addr;
    peer->addr.ep = 0;
    peer->id = peer->source = domain->num_peers;
    peer->is_known = true;
    peer->short_max = -1;
    peer->last_ctl = &peer->first_ctl;
    gfi_list_init(&peer->ops);
    gfi_list_init(&peer->deferred);
    gfi_list_init(&peer->rma);
    ret = gfi_peer_open_ep(peer);
    if (ret != 0) {
        goto err_free;
    }
    gfi_map_get(&domain->peer_by_addr, hash, &next_same);
    peer->next_same = (uint32_t)next_same;
    ret = gfi_map_set(&domain->peer_by_addr, hash, peer->id);
    if (ret != 0) {
        goto err_ep;
    }
    domain->peers[domain->num_peers++] = peer;
    *peer_p = peer;
    return 0;

err_ep:
    uct_ep_destroy(peer->uct_ep);
err_free:
    free(peer);
    return ret;
}

int gfi_peer_get(struct gfi_domain *domain, const struct gfi_addr *addr, struct gfi_peer **peer_p)
{
    uint64_t hash;
    int ret;

    ret = gfi_addr_check(domain, addr);
    if (ret != 0) {
        return ret;
    }
    hash = gfi_peer_hash(addr);
    *peer_p = gfi_peer_find(domain, addr, hash);
    return *peer_p != NULL ? 0 : gfi_peer_new(domain, addr, hash, peer_p);
}

/* The address leads no longer to the peer. A value of the map is replaced, so no memory is needed */
static void gfi_peer_forget(struct gfi_peer *peer)
{
    struct gfi_domain *domain = peer->domain;
    uint64_t hash = gfi_peer_hash(&peer->addr), first = GFI_NO_PEER;
    uint32_t *link;

    if (!peer->is_known) {
        return;
    }
    peer->is_known = false;
    gfi_map_get(&domain->peer_by_addr, hash, &first);
    if (first == peer->id && peer->next_same == GFI_NO_PEER) {
        gfi_map_delete(&domain->peer_by_addr, hash);
        return;
    }
    if (first == peer->id) {
        gfi_map_set(&domain->peer_by_addr, hash, peer->next_same);
        return;
    }
    for (link = &domain->peers[first]->next_same; *link != peer->id;) {
        link = &domain->peers[*link]->next_same;
    }
    *link = peer->next_same;
}

int gfi_peer_renew(struct gfi_peer *old, struct gfi_peer **peer_p)
{
    struct gfi_domain *domain = old->domain;
    struct gfi_peer *fresh;
    uint32_t i;
    int ret;

    ret = gfi_peer_new(domain, &old->addr, gfi_peer_hash(&old->addr), &fresh);
    if (ret != 0) {
        return ret;
    }
    gfi_peer_forget(old);
    for (i = 0; i < domain->num_peers; i++) {
        if (domain->peers[i] != NULL && domain->peers[i]->source == old->id) {
            domain->peers[i]->source = fresh->id;
        }
    }
    *peer_p = fresh;
    return 0;
}

static void gfi_peer_drop_ctl(struct gfi_peer *peer)
{
    struct gfi_ctl *ctl, *next;

    for (ctl = peer->first_ctl; ctl != NULL; ctl = next) {
        next = ctl->next;
        free(ctl);
    }
    peer->first_ctl = NULL;
    peer->last_ctl = &peer->first_ctl;
}

static void gfi_peer_free(struct gfi_peer *peer)
{
    gfi_peer_forget(peer);
    gfi_rkeys_cleanup(peer);
    uct_ep_destroy(peer->uct_ep);
    gfi_peer_drop_ctl(peer);
    peer->domain->peers[peer->id] = NULL;
    free(peer);
}

void gfi_peers_cleanup(struct gfi_domain *domain)
{
    uint32_t i;

    for (i = 0; i < domain->num_peers; i++) {
        if (domain->peers[i] != NULL) {
            gfi_peer_free(domain->peers[i]);
        }
    }
    free(domain->peers);
    gfi_map_cleanup(&domain->peer_by_addr);
}

/* ---- sending ---- */

static size_t gfi_peer_pack(void *to, void *arg)
{
    const struct gfi_parcel *parcel = arg;

    memcpy(to, parcel->message, parcel->len);
    if (parcel->bytes_len > 0) {
        memcpy((uint8_t *)to + parcel->len, parcel->bytes, parcel->bytes_len);
    }
    return parcel->len + parcel->bytes_len;
}

ucs_status_t gfi_peer_post(struct gfi_peer *peer, uint8_t am_id, const struct gfi_parcel *parcel)
{
    uint64_t header;
    ssize_t ret;

    if (parcel->bytes_len == 0 && parcel->len <= peer->domain->short_size + sizeof(header)) {
        memcpy(&header, parcel->message, sizeof(header));
        return uct_ep_am_short(peer->uct_ep, am_id, header,
                               (const uint8_t *)parcel->message + sizeof(header),
                               (unsigned)(parcel->len - sizeof(header)));
    }
    ret = uct_ep_am_bcopy(peer->uct_ep, am_id, gfi_peer_pack, (void *)parcel, 0);
    return ret >= 0 ? UCS_OK : (ucs_status_t)ret;
}

static void gfi_peer_queue(struct gfi_peer *peer, uint8_t am_id, const struct gfi_parcel *parcel)
{
    struct gfi_ctl *ctl = malloc(sizeof(*ctl) + parcel->len + parcel->bytes_len);

    if (ctl == NULL) { /* without this message the peer would wait for ever */
        GFI_WARN(FI_LOG_EP_CTRL, "no memory for a message to peer %u: it is given up\n", peer->id);
        gfi_peer_fail(peer, FI_ENOMEM);
        return;
    }
    ctl->next = NULL;
    ctl->am_id = am_id;
    ctl->len = (uint32_t)gfi_peer_pack(ctl->bytes, (void *)parcel);
    *peer->last_ctl = ctl;
    peer->last_ctl = &ctl->next;
    gfi_peer_update(peer);
    gfi_peer_set_due(peer);
}

void gfi_peer_send_parcel(struct gfi_peer *peer, uint8_t am_id, const struct gfi_parcel *parcel)
{
    ucs_status_t status = UCS_ERR_NO_RESOURCE;

    if (peer->error != 0) {
        return;
    }
    if (peer->first_ctl == NULL) {
        status = gfi_peer_post(peer, am_id, parcel);
    }
    if (status == UCS_ERR_NO_RESOURCE) {
        gfi_peer_queue(peer, am_id, parcel);
    } else if (status != UCS_OK) {
        gfi_peer_fail(peer, gfi_uct_errno(status));
    }
}

void gfi_peer_send(struct gfi_peer *peer, uint8_t am_id, const void *message, size_t len)
{
    struct gfi_parcel parcel = {.message = message, .len = len};

    gfi_peer_send_parcel(peer, am_id, &parcel);
}

void gfi_peer_send_fin(struct gfi_peer *peer, uint64_t op, int error)
{
    struct gfi_fin fin = {.header = peer->header, .op = op, .error = (uint32_t)error};

    gfi_peer_send(peer, GFI_AM_FIN, &fin, sizeof(fin));
}

bool gfi_peer_progress(struct gfi_peer *peer)
{
    struct gfi_parcel parcel = {.bytes_len = 0};
    struct gfi_ctl *ctl;
    ucs_status_t status;

    while ((ctl = peer->first_ctl) != NULL) {
        parcel.message = ctl->bytes;
        parcel.len = ctl->len;
        status = gfi_peer_post(peer, ctl->am_id, &parcel);
        if (status == UCS_ERR_NO_RESOURCE) {
            return false;
        }
        if (status != UCS_OK) {
            gfi_peer_fail(peer, gfi_uct_errno(status));
            return true;
        }
        peer->first_ctl = ctl->next;
        if (peer->first_ctl == NULL) {
            peer->last_ctl = &peer->first_ctl;
        }
        free(ctl);
    }
    return true;
}

/* ---- state ---- */

void gfi_peer_connect(struct gfi_peer *peer)
{
    struct gfi_hello hello = {.header = gfi_header(GFI_NO_PEER, 0, 0, 0),
                              .your_id = peer->id,
                              .addr = peer->domain->addr};

    if (!peer->hello_sent) {
        peer->hello_sent = true;
        gfi_peer_send(peer, GFI_AM_HELLO, &hello, sizeof(hello));
    }
}

int gfi_peer_check(struct gfi_peer *peer)
{
    if (gfi_likely(peer->ready && peer->error == 0 && !peer->left)) {
        return 0;
    }
    if (peer->error != 0) {
        return -peer->error;
    }
    if (peer->left) { /* the transport may learn of the end later */
        return -FI_ECONNRESET;
    }
    gfi_peer_connect(peer);
    return peer->error != 0 ? -peer->error : -FI_EAGAIN;
}

static void gfi_peer_fail_ops(struct gfi_list *ops, int error)
{
    struct gfi_list *item, *next;

    gfi_list_for_each_safe(item, next, ops) {
        gfi_op_fail(gfi_list_entry(item, struct gfi_op, link), error);
    }
}

void gfi_peer_fail(struct gfi_peer *peer, int error)
{
    if (peer->error != 0) {
        return;
    }
    GFI_INFO(FI_LOG_EP_CTRL, "peer %u is gone: %s\n", peer->id, fi_strerror(error));
    peer->error = error;
    gfi_peer_update(peer);
    gfi_peer_drop_ctl(peer);
    gfi_peer_fail_ops(&peer->ops, error);
    gfi_peer_fail_ops(&peer->deferred, error);
    gfi_peer_fail_ops(&peer->rma, error);
    if (!peer->left) {
        gfi_list_add(&peer->domain->draining, &peer->draining);
        peer->is_draining = true;
        peer->domain->drain_rounds = 0;
        gfi_set_due(peer->domain);
    }
}

void gfi_peers_say_bye(struct gfi_domain *domain)
{
    struct gfi_peer *peer;
    struct gfi_bye bye;
    uint32_t i;

    for (i = 0; i < domain->num_peers; i++) {
        peer = domain->peers[i];
        if (peer != NULL && peer->ready && !peer->left) {
            bye.header = peer->header;
            gfi_peer_send(peer, GFI_AM_BYE, &bye, sizeof(bye));
        }
    }
}

ucs_status_t gfi_peer_on_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
    struct gfi_domain *domain = arg;
    uint32_t i;

    for (i = 0; i < domain->num_peers; i++) {
        if (domain->peers[i] != NULL && domain->peers[i]->uct_ep == ep) {
            gfi_peer_fail(domain->peers[i], gfi_uct_errno(status));
            break;
        }
    }
    return UCS_OK;
}

static void gfi_peer_check_life(struct gfi_peer *peer)
{
    ucs_status_t status = uct_ep_check(peer->uct_ep, 0, NULL);

    if (status != UCS_OK && status != UCS_INPROGRESS && status != UCS_ERR_NO_RESOURCE) {
        gfi_peer_fail(peer, gfi_uct_errno(status));
    }
}

/* Whether a living domain may still send messages as this peer: it has not heard of the new
 * connection */
static bool gfi_peer_awaits_successor(const struct gfi_peer *peer)
{
    const struct gfi_peer *successor = peer->domain->peers[peer->source];

    return successor != peer && successor != NULL && !successor->ready && successor->error == 0;
}

static bool gfi_peer_is_unused(const struct gfi_peer *peer)
{
    return (peer->error != 0 || peer->left) && peer->entries == 0 && peer->kept == 0 &&
           !peer->is_draining && !peer->is_due && peer->first_ctl == NULL &&
           gfi_list_is_empty(&peer->ops) && gfi_list_is_empty(&peer->deferred) &&
           gfi_list_is_empty(&peer->rma) && !gfi_peer_awaits_successor(peer);
}

/* UCT detects the death of a peer only while UCT waits for the peer. But a receive, an announced
 * message and a message that waits for the peer's HELLO do not wait in UCT. A peer that closed in
 * good order is an error only for announced and waiting messages. The check does not connect. An eighth
 * of the peers is checked at once, so a check of all takes a second. */
void gfi_peers_watch(struct gfi_domain *domain)
{
    uint32_t count = domain->num_peers / 8, i;
    struct gfi_peer *peer;

    count = gfi_min(domain->num_peers, count > GFI_WATCH_PEERS ? count : GFI_WATCH_PEERS);
    for (i = 0; i < count; i++) {
        if (domain->watch_hand >= domain->num_peers) {
            domain->watch_hand = 0;
        }
        peer = domain->peers[domain->watch_hand++];
        if (peer != NULL && peer->error == 0) {
            gfi_peer_check_life(peer);
        }
        if (peer != NULL && gfi_peer_is_unused(peer)) {
            gfi_peer_free(peer);
        }
    }
}
