/*
 * Address vectors. Both types are tables: fi_addr_t is the entry's number.
 */
#include "proto/gfi_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gfi_av *gfi_av_of(struct fid_av *fid)
{
    return gfi_of(fid, struct gfi_av, fid);
}

static int gfi_av_new_entry(struct gfi_av *av, fi_addr_t *number)
{
    size_t size = av->size == 0 ? 64 : 2 * av->size;
    struct gfi_av_entry *entries;

    if (av->free != FI_ADDR_NOTAVAIL) {
        *number = av->free;
        av->free = av->entries[*number].next_free;
        return 0;
    }
    if (av->count == av->size) {
        entries = realloc(av->entries, size * sizeof(*entries));
        if (entries == NULL) {
            return -FI_ENOMEM;
        }
        av->entries = entries;
        av->size = size;
    }
    *number = av->count++;
    return 0;
}

static void gfi_av_free_entry(struct gfi_av *av, fi_addr_t number)
{
    av->entries[number].peer = NULL;
    av->entries[number].next_free = av->free;
    av->free = number;
}

/* `id`: reported by completions, or NULL for the number */
static int gfi_av_insert_one(struct gfi_av *av, const struct gfi_addr *addr, const fi_addr_t *id,
                             fi_addr_t *number)
{
    struct gfi_av_entry entry = {.header = gfi_header(0, 0, addr->ep, 0)};
    uint64_t twin;
    int ret;

    ret = gfi_peer_get_current(av->domain, addr, &entry.peer);
    if (ret != 0) {
        return ret;
    }
    ret = gfi_av_new_entry(av, number);
    if (ret != 0) {
        return ret;
    }
    entry.user_id = id != NULL ? *id : *number;
    entry.source = entry.peer->id | (uint64_t)addr->ep << GFI_SRC_SHIFT;
    if (gfi_map_get(&av->by_source, entry.source, &twin)) {
        entry.has_twin = av->entries[twin].has_twin = true;
    } else {
        ret = gfi_map_set(&av->by_source, entry.source, *number);
        if (ret != 0) {
            gfi_av_free_entry(av, *number);
            return ret;
        }
    }
    entry.peer->entries++;
    av->entries[*number] = entry;
    return 0;
}

static void gfi_av_report(struct gfi_av *av, void *context, int done, const int *errors,
                          size_t count)
{
    struct fi_eq_entry entry = {.fid = &av->fid.fid, .context = context, .data = (uint64_t)done};
    struct fi_eq_err_entry error = {.fid = &av->fid.fid, .context = context};
    size_t i;

    for (i = 0; i < count; i++) {
        if (errors[i] != 0) {
            error.data = i;
            error.err = -errors[i];
            gfi_eq_add_error(av->eq, FI_AV_COMPLETE, &error);
        }
    }
    gfi_eq_add(av->eq, FI_AV_COMPLETE, &entry, sizeof(entry));
}

/* The address with this number in the arguments of fi_av_insert(). fi_av(3) wants an array of pointers to
 * strings with FI_ADDR_STR. Many programs give the string that fi_getname() returned. Such a string
 * begins with GFI_ADDR_PREFIX, whose first 8 bytes are no valid pointer. */
static int gfi_av_read(const struct gfi_av *av, const void *addrs, size_t i, struct gfi_addr *addr)
{
    const char *text = addrs;

    if (!av->domain->has_text_addrs) {
        memcpy(addr, (const uint8_t *)addrs + i * sizeof(*addr), sizeof(*addr));
        return 0;
    }
    if (memcmp(text, GFI_ADDR_PREFIX, sizeof(uintptr_t)) != 0) {
        return gfi_addr_parse(((const char *const *)addrs)[i], addr);
    }
    while (i-- > 0) {
        text += strlen(text) + 1;
    }
    return gfi_addr_parse(text, addr);
}

/* With FI_SYNC_ERR the context is an array of errors; with an event queue the call is asynchronous,
 * though it has ended when it returns */
static int gfi_av_insert(struct fid_av *fid, const void *addrs, size_t count, fi_addr_t *numbers,
                         uint64_t flags, void *context)
{
    struct gfi_av *av = gfi_av_of(fid);
    bool async = (av->flags & FI_EVENT) != 0, has_ids = (flags & FI_AV_USER_ID) != 0;
    int *errors = (flags & FI_SYNC_ERR) ? context : NULL, *own = NULL, ret, done = 0;
    struct gfi_addr addr;
    fi_addr_t number;
    size_t i;

    if (async && av->eq == NULL) {
        return -FI_ENOEQ;
    }
    if (has_ids && numbers == NULL) {
        return -FI_EINVAL;
    }
    if (async) {
        own = calloc(count + 1, sizeof(*own));
        if (own == NULL) {
            return -FI_ENOMEM;
        }
        errors = own;
    }
    gfi_lock(av->domain);
    for (i = 0; i < count; i++) {
        number = FI_ADDR_NOTAVAIL;
        ret = gfi_av_read(av, addrs, i, &addr);
        if (ret == 0) {
            ret = gfi_av_insert_one(av, &addr, has_ids ? &numbers[i] : NULL, &number);
        }
        done += ret == 0;
        if (numbers != NULL) {
            numbers[i] = ret == 0 ? number : FI_ADDR_NOTAVAIL;
        }
        if (errors != NULL) {
            errors[i] = async ? ret : -ret;
        }
    }
    gfi_unlock(av->domain);
    if (async) {
        gfi_av_report(av, context, done, own, count);
        free(own);
        return 0;
    }
    return done;
}

static int gfi_av_insertsvc(struct fid_av *fid, const char *node, const char *service,
                            fi_addr_t *number, uint64_t flags, void *context)
{
    char full[GFI_ADDR_TEXT];
    const char *text = full;
    struct gfi_addr addr;

    if ((node == NULL || gfi_addr_parse(node, &addr) != 0) &&
        (service == NULL || !gfi_name_is_valid(service) || gfi_name_find(service, &addr) != 0)) {
        return -FI_EINVAL;
    }
    gfi_addr_print(&addr, full, sizeof(full));
    return gfi_av_insert(fid, gfi_av_of(fid)->domain->has_text_addrs ? (const void *)&text : &addr,
                         1, number, flags, context);
}

static int gfi_av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt,
                            const char *service, size_t svccnt, fi_addr_t *numbers, uint64_t flags,
                            void *context)
{
    (void)fid, (void)node, (void)nodecnt, (void)service, (void)svccnt, (void)numbers, (void)flags;
    (void)context;
    return -FI_ENOSYS; /* addresses of the NIC do not follow one another */
}

/* Maps the source of a removed entry to another entry with this source, if the AV has one */
static void gfi_av_forget_source(struct gfi_av *av, const struct gfi_av_entry *removed)
{
    fi_addr_t i;

    for (i = 0; removed->has_twin && i < av->count; i++) {
        if (av->entries[i].peer != NULL && av->entries[i].source == removed->source) {
            gfi_map_set(&av->by_source, removed->source,
                        i); /* the entry of the map is replaced, which needs no memory */
            return;
        }
    }
    gfi_map_delete(&av->by_source, removed->source);
}

static int gfi_av_remove_one(struct gfi_av *av, fi_addr_t number)
{
    struct gfi_av_entry *entry = gfi_av_entry(av, number);
    uint64_t known;

    if (entry == NULL) {
        return -FI_EINVAL;
    }
    entry->peer->entries--;
    gfi_av_free_entry(av, number);
    if (gfi_map_get(&av->by_source, entry->source, &known) && known == number) {
        gfi_av_forget_source(av, entry);
    }
    return 0;
}

static int gfi_av_remove(struct fid_av *fid, fi_addr_t *numbers, size_t count, uint64_t flags)
{
    struct gfi_av *av = gfi_av_of(fid);
    int ret = 0;
    size_t i;

    (void)flags;
    gfi_lock(av->domain);
    for (i = count; i-- > 0;) { /* backwards, so the next inserted addresses get the same numbers in
                                 * order */
        if (gfi_av_remove_one(av, numbers[i]) != 0) {
            ret = -FI_EINVAL;
        }
    }
    gfi_unlock(av->domain);
    return ret;
}

static int gfi_av_lookup(struct fid_av *fid, fi_addr_t number, void *addr, size_t *addrlen)
{
    struct gfi_av *av = gfi_av_of(fid);
    struct gfi_av_entry *entry;
    struct gfi_addr full;
    int ret = -FI_EINVAL;

    gfi_lock(av->domain);
    entry = gfi_av_entry(av, number);
    if (entry != NULL) {
        gfi_source_addr(av->domain, entry->source, &full);
        *addrlen = gfi_addr_write(av->domain->has_text_addrs, &full, addr, *addrlen);
        ret = 0;
    }
    gfi_unlock(av->domain);
    return ret;
}

static const char *gfi_av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
    struct gfi_addr copy;
    size_t size = *len;

    if (!gfi_av_of(fid)->domain->has_text_addrs) {
        memcpy(&copy, addr, sizeof(copy));
        *len = gfi_addr_print(&copy, buf, size);
    } else {
        *len = (size_t)snprintf(buf, size, "%s", (const char *)addr) + 1;
    }
    return buf;
}

static int gfi_av_close(struct fid *fid)
{
    struct gfi_av *av = gfi_of(fid, struct gfi_av, fid.fid);
    size_t i;

    gfi_lock(av->domain);
    if (av->refs > 0) {
        gfi_unlock(av->domain);
        return -FI_EBUSY;
    }
    for (i = 0; i < av->count; i++) {
        if (av->entries[i].peer != NULL) {
            av->entries[i].peer->entries--;
        }
    }
    gfi_list_del(&av->link);
    av->domain->refs--;
    if (av->eq != NULL) {
        gfi_ref_put(&av->eq->refs);
    }
    gfi_unlock(av->domain);
    gfi_map_cleanup(&av->by_source);
    free(av->entries);
    free(av);
    return 0;
}

static int gfi_av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct gfi_av *av = gfi_of(fid, struct gfi_av, fid.fid);

    (void)flags;
    if (bfid->fclass != FI_CLASS_EQ || av->eq != NULL) {
        return -FI_EINVAL;
    }
    av->eq = gfi_of(bfid, struct gfi_eq, fid.fid);
    gfi_ref_get(&av->eq->refs);
    return 0;
}

static struct fi_ops gfi_av_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_av_close,
    .bind = gfi_av_bind,
    .control = gfi_no_control,
    .ops_open = gfi_no_ops_open,
};

static struct fi_ops_av gfi_av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = gfi_av_insert,
    .insertsvc = gfi_av_insertsvc,
    .insertsym = gfi_av_insertsym,
    .remove = gfi_av_remove,
    .lookup = gfi_av_lookup,
    .straddr = gfi_av_straddr,
};

int gfi_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av_p,
                void *context)
{
    struct gfi_domain *domain = gfi_domain_of(fid);
    struct gfi_av *av;

    if (attr->name != NULL || (attr->flags & ~(uint64_t)(FI_EVENT | FI_AV_USER_ID)) != 0 ||
        attr->rx_ctx_bits != 0) {
        GFI_INFO(FI_LOG_AV, "shared address vectors and receive contexts are not offered\n");
        return -FI_ENOSYS;
    }
    av = calloc(1, sizeof(*av));
    if (av == NULL) {
        return -FI_ENOMEM;
    }
    av->fid.fid.fclass = FI_CLASS_AV;
    av->fid.fid.context = context;
    av->fid.fid.ops = &gfi_av_fi_ops;
    av->fid.ops = &gfi_av_ops;
    av->domain = domain;
    av->free = FI_ADDR_NOTAVAIL;
    av->flags = attr->flags;
    if (attr->type == FI_AV_UNSPEC) {
        attr->type = FI_AV_TABLE;
    }
    gfi_lock(domain);
    gfi_list_add(&domain->avs, &av->link);
    domain->refs++;
    gfi_unlock(domain);
    *av_p = &av->fid;
    return 0;
}
