/* Keys of peers. A revoked key is freed when its last operation ends. */
#include "gfi_peer.h"

#include <stdlib.h>
#include <string.h>

static void gfi_rkey_free(struct gfi_peer *peer, struct gfi_rkey *rkey)
{
    size_t i;

    for (i = 0; i < rkey->num_parts; i++) {
        if (rkey->parts[i].bundle.rkey != UCT_INVALID_RKEY) {
            uct_rkey_release(peer->domain->uct.component, &rkey->parts[i].bundle);
        }
    }
    free(rkey->parts);
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
    if (rkey->error != 0) {
        return rkey->error;
    }
    if (!(rkey->access & (is_write ? FI_REMOTE_WRITE : FI_REMOTE_READ))) {
        return FI_EACCES;
    }
    if (addr < rkey->base || len > rkey->length || addr - rkey->base > rkey->length - len) {
        return FI_EINVAL;
    }
    return 0;
}

/* ---- parts ---- */

/* The number of parts that begin at or before an address */
static size_t gfi_rkey_parts_until(const struct gfi_rkey *rkey, uint64_t addr)
{
    size_t low = 0, high = rkey->num_parts, middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (rkey->parts[middle].base <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct gfi_rkey_part *gfi_rkey_find_part(const struct gfi_rkey *rkey, uint64_t addr)
{
    size_t count =
        rkey->num_parts == 1 ? rkey->parts[0].base <= addr : gfi_rkey_parts_until(rkey, addr);
    const struct gfi_rkey_part *part = count > 0 ? &rkey->parts[count - 1] : NULL;

    return part != NULL && addr - part->base < part->length ? part : NULL;
}

int gfi_rkey_part_check(const struct gfi_rkey_part *part, bool is_write)
{
    return part->access & (is_write ? FI_REMOTE_WRITE : FI_REMOTE_READ) ? 0 : FI_EACCES;
}

int gfi_rkey_add_part(struct gfi_rkey *rkey, const struct gfi_rkey_part *part)
{
    size_t place = gfi_rkey_parts_until(rkey, rkey->asked_at);
    struct gfi_rkey_part *parts = realloc(rkey->parts, (rkey->num_parts + 1) * sizeof(*parts));
    struct gfi_rkey_part fresh = *part;
    uint64_t before;

    if (parts == NULL) {
        return -FI_ENOMEM;
    }
    rkey->parts = parts;
    before = place > 0 ? parts[place - 1].base + parts[place - 1].length : 0;
    if (fresh.base < before) {
        fresh.addr += before - fresh.base;
        fresh.length -= before - fresh.base;
        fresh.base = before;
    }
    if (place < rkey->num_parts) {
        fresh.length = gfi_min(fresh.length, parts[place].base - fresh.base);
    }
    memmove(&parts[place + 1], &parts[place], (rkey->num_parts - place) * sizeof(*parts));
    parts[place] = fresh;
    rkey->num_parts++;
    return 0;
}
