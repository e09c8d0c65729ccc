#include "proto/gfi_peer.h"

#include <stdlib.h>
#include <string.h>

struct gfi_mr *gfi_mr_find(const struct gfi_domain *domain, uint64_t key)
{
    uint64_t value;

    return gfi_map_get(&domain->mrs, key, &value) ? (struct gfi_mr *)(uintptr_t)value : NULL;
}

int gfi_mr_add_holder(struct gfi_mr *mr, uint32_t peer)
{
    uint32_t *holders;
    unsigned i;

    for (i = 0; i < mr->num_holders; i++) {
        if (mr->holders[i] == peer) {
            return 0;
        }
    }
    holders = realloc(mr->holders, (mr->num_holders + 1) * sizeof(*holders));
    if (holders == NULL) {
        return -FI_ENOMEM;
    }
    holders[mr->num_holders++] = peer;
    mr->holders = holders;
    return 0;
}

static bool gfi_mr_has_prov_keys(const struct gfi_domain *domain)
{
    return (domain->mr_mode & (GFI_MR_BASIC | FI_MR_PROV_KEY)) != 0;
}

static bool gfi_mr_has_addresses(const struct gfi_domain *domain)
{
    return (domain->mr_mode & (GFI_MR_BASIC | FI_MR_VIRT_ADDR)) != 0;
}

/* Locked. The provider never uses a key twice, so an old key never names a new registration. */
static int gfi_mr_set_key(struct gfi_mr *mr, uint64_t requested)
{
    struct gfi_domain *domain = mr->domain;
    uint64_t key = requested;

    if (gfi_mr_has_prov_keys(domain)) {
        key = domain->next_key++;
    } else if (gfi_mr_find(domain, key) != NULL) {
        return -FI_ENOKEY;
    }
    mr->fid.key = key;
    return gfi_map_set(&domain->mrs, key, (uintptr_t)mr);
}

/* Pieces have their own addresses, or follow one another from 0 */
static int gfi_mr_add_pieces(struct gfi_mr *mr, const struct iovec *iov, size_t count)
{
    bool has_addresses = gfi_mr_has_addresses(mr->domain);
    uint64_t at = 0, lowest = UINT64_MAX, end = 0;
    size_t i;
    int ret;

    for (i = 0; i < count; i++) {
        at = has_addresses ? (uintptr_t)iov[i].iov_base : at;
        lowest = gfi_min(lowest, at);
        ret = gfi_mr_add_part(mr, at, iov[i].iov_base, iov[i].iov_len,
                              FI_REMOTE_READ | FI_REMOTE_WRITE);
        if (ret != 0) {
            return ret;
        }
        at += iov[i].iov_len;
        end = end > at ? end : at;
    }
    mr->base = lowest;
    mr->length = end - lowest;
    return 0;
}

static int gfi_mr_add_memory(struct gfi_mr *mr, const struct iovec *iov, size_t count)
{
    mr->is_all = count == 1 && iov->iov_base == NULL && iov->iov_len == SIZE_MAX;
    if (!mr->is_all) {
        return gfi_mr_add_pieces(mr, iov, count);
    }
    mr->base = 0;
    mr->length = UINT64_MAX;
    return 0;
}

/* Tells all peers that know the key to forget it. They ask again when they need it. */
static void gfi_mr_revoke(struct gfi_mr *mr)
{
    struct gfi_key_revoke revoke = {.key = mr->fid.key};
    struct gfi_peer *peer;
    unsigned i;

    for (i = 0; i < mr->num_holders; i++) {
        peer = mr->domain->peers[mr->holders[i]];
        if (peer != NULL) {
            revoke.header = peer->header;
            gfi_peer_send(peer, GFI_AM_KEY_REVOKE, &revoke, sizeof(revoke));
        }
    }
    mr->num_holders = 0;
}

/* ---- remote events ---- */

uint64_t gfi_mr_events(const struct gfi_mr *mr)
{
    return mr->domain->events | (mr->cntr != NULL ? FI_REMOTE_WRITE : 0);
}

void gfi_mr_want_events(struct gfi_domain *domain, uint64_t events)
{
    uint64_t key, value;
    size_t place = 0;

    if ((events & ~domain->events) == 0) {
        return;
    }
    domain->events |= events;
    while (gfi_map_next(&domain->mrs, &place, &key, &value)) {
        gfi_mr_revoke((struct gfi_mr *)(uintptr_t)value);
    }
}

void gfi_mr_count(struct gfi_mr *mr, uint64_t access)
{
    if (mr != NULL && access == FI_REMOTE_WRITE) {
        gfi_cntr_count(mr->cntr, false);
    }
}

static int gfi_mr_bind_cntr(struct gfi_mr *mr, struct gfi_cntr *cntr, uint64_t flags)
{
    if (flags != FI_REMOTE_WRITE || cntr->domain != mr->domain || mr->cntr != NULL) {
        return -FI_EINVAL;
    }
    mr->cntr = cntr;
    cntr->refs++;
    gfi_mr_revoke(mr); /* initiators learn that they must report accesses */
    return 0;
}

static int gfi_mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct gfi_mr *mr = gfi_of(fid, struct gfi_mr, fid.fid);
    int ret;

    if (bfid->fclass == FI_CLASS_EP) {
        return 0; /* registrations serve all endpoints of the domain */
    }
    if (bfid->fclass != FI_CLASS_CNTR) {
        return -FI_EINVAL;
    }
    gfi_lock(mr->domain);
    ret = gfi_mr_bind_cntr(mr, gfi_of(bfid, struct gfi_cntr, fid.fid), flags);
    gfi_unlock(mr->domain);
    return ret;
}

/* ---- life ---- */

static int gfi_mr_close(struct fid *fid)
{
    struct gfi_mr *mr = gfi_of(fid, struct gfi_mr, fid.fid);
    struct gfi_domain *domain = mr->domain;

    gfi_lock(domain);
    gfi_map_delete(&domain->mrs, mr->fid.key);
    gfi_mr_revoke(mr);
    gfi_mr_drop_parts(mr);
    if (mr->cntr != NULL) {
        mr->cntr->refs--;
    }
    domain->refs--;
    gfi_unlock(domain);
    free(mr->holders);
    free(mr);
    return 0;
}

static int gfi_mr_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)arg;
    return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops gfi_mr_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_mr_close,
    .bind = gfi_mr_bind,
    .control = gfi_mr_control,
    .ops_open = gfi_no_ops_open,
};

static int gfi_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                          struct fid_mr **mr_p)
{
    struct gfi_domain *domain = gfi_of(fid, struct gfi_domain, fid.fid);
    struct gfi_mr *mr;
    int ret;

    if (fid->fclass != FI_CLASS_DOMAIN || attr->iov_count == 0 || attr->iov_count > GFI_IOV_LIMIT ||
        attr->offset != 0 || attr->iface != FI_HMEM_SYSTEM || (flags & ~GFI_MR_FLAGS) != 0) {
        return -FI_EINVAL;
    }
    mr = calloc(1, sizeof(*mr));
    if (mr == NULL) {
        return -FI_ENOMEM;
    }
    mr->domain = domain;
    mr->access = attr->access;
    mr->fid.fid.fclass = FI_CLASS_MR;
    mr->fid.fid.context = attr->context;
    mr->fid.fid.ops = &gfi_mr_fi_ops;
    mr->fid.mem_desc = mr;
    gfi_lock(domain);
    ret = gfi_mr_add_memory(mr, attr->mr_iov, attr->iov_count);
    if (ret == 0) {
        ret = gfi_mr_set_key(mr, attr->requested_key);
    }
    if (ret != 0) {
        gfi_mr_drop_parts(mr);
    }
    domain->refs += ret == 0;
    gfi_unlock(domain);
    if (ret != 0) {
        free(mr);
        return ret;
    }
    *mr_p = &mr->fid;
    return 0;
}

static int gfi_mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                       uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                       void *context)
{
    struct fi_mr_attr attr = {.mr_iov = iov,
                              .iov_count = count,
                              .access = access,
                              .offset = offset,
                              .requested_key = requested_key,
                              .context = context};

    return gfi_mr_regattr(fid, &attr, flags, mr);
}

static int gfi_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
                      uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                      void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return gfi_mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr gfi_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = gfi_mr_reg,
    .regv = gfi_mr_regv,
    .regattr = gfi_mr_regattr,
};
