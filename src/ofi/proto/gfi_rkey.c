/* Keys of peers. A revoked key is freed when its last operation ends. */
#include "gfi_peer.h"

#include <stdlib.h>

static void gfi_rkey_free(struct gfi_peer *peer, struct gfi_rkey *rkey)
{
    if (rkey->bundle.rkey != UCT_INVALID_RKEY) {
        uct_rkey_release(peer->domain->uct.component, &rkey->bundle);
    }
    free(rkey);
}

void gfi_rkey_put(struct gfi_peer *peer, struct gfi_rkey *rkey)
{
    if (--rkey->uses == 0 && rkey->revoked) {
        gfi_rkey_free(peer, rkey);
    }
}

void gfi_rkey_forget(struct gfi_peer *peer, uint64_t key)
{
    struct gfi_rkey *rkey;
    uint64_t value;

    if (!gfi_map_get(&peer->rkeys, key, &value)) {
        return;
    }
    rkey = (struct gfi_rkey *)(uintptr_t)value;
    if (!rkey->known) {
        return; /* the answer to our question is still to come */
    }
    gfi_map_delete(&peer->rkeys, key);
    rkey->revoked = true;
    if (rkey->uses == 0) {
        gfi_rkey_free(peer, rkey);
    }
}

void gfi_rkeys_cleanup(struct gfi_peer *peer)
{
    struct gfi_rkey *rkey;
    uint64_t key, value;

    while (gfi_map_any(&peer->rkeys, &key, &value)) {
        rkey = (struct gfi_rkey *)(uintptr_t)value;
        gfi_map_delete(&peer->rkeys, key);
        gfi_rkey_free(peer, rkey);
    }
    gfi_map_cleanup(&peer->rkeys);
}

struct gfi_rkey *gfi_rkey_find(const struct gfi_peer *peer, uint64_t key)
{
    uint64_t value;

    return gfi_map_get(&peer->rkeys, key, &value) ? (struct gfi_rkey *)(uintptr_t)value : NULL;
}

int gfi_rkey_check(const struct gfi_rkey *rkey, bool is_write, uint64_t addr, size_t len)
{
    if (rkey->access == 0 && rkey->bundle.rkey == UCT_INVALID_RKEY) {
        return FI_EKEYREJECTED;
    }
    if (!(rkey->access & (is_write ? FI_REMOTE_WRITE : FI_REMOTE_READ))) {
        return FI_EACCES;
    }
    if (addr < rkey->base || len > rkey->length || addr - rkey->base > rkey->length - len) {
        return FI_EINVAL;
    }
    return len > 0 && rkey->bundle.rkey == UCT_INVALID_RKEY ? FI_EKEYREJECTED : 0;
}
