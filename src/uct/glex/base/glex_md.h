/*
 * Memory domain `glex/gniN` of NIC N: owns the GLEX endpoint that all registrations belong to.
 * The first interface opened on the domain inherits that endpoint (paper 003, section 5.1);
 * further ones, such as those of several workers, have their own, at which memory is registered
 * again when they first use it.
 */
#ifndef UCT_GLEX_MD_H
#define UCT_GLEX_MD_H

#include "compat/glex_compat.h"
#include "base/glex_nic.h"
#include "base/glex_reg.h"
#include "base/glex_wire.h"

#include <pthread.h>

#define UCT_GLEX_NAME "glex"
/* Of NIC i, which has a memory domain of its own */
#define UCT_GLEX_DEVICE_NAME "gni%u"
#define UCT_GLEX_MD_NAME     UCT_GLEX_NAME "/" UCT_GLEX_DEVICE_NAME

typedef struct uct_glex_md_config {
    uct_md_config_t super;
    ucs_ternary_auto_value_t rcache_enable;
    uct_glex_rcache_config_t rcache;
    unsigned ep_type;
    int ep_hc_mpq;
    int ep_hc_eq;
    unsigned ep_dq_capacity;
    unsigned ep_mpq_capacity;
    unsigned ep_eq_capacity;
} uct_glex_md_config_t;

/* An endpoint of the domain */
typedef struct uct_glex_md_ep {
    glex_ep_handle_t nic;
    int in_use; /* lent to an interface */
} uct_glex_md_ep_t;

/* UCX's handle of registered memory. Where the NIC is this process, put and get need no
 * registration of local memory, so it is made when something else needs it. */
typedef struct uct_glex_memh {
    struct uct_glex_memh *next; /* of the same operation, uct_glex_memh_free_all() */
    void *address;
    size_t length;
    uct_glex_reg_t *reg; /* NULL: not needed yet */
    unsigned flags;      /* of uct_md_mem_reg() */
    int revocable;       /* may be invalidated, UCT_GLEX_MKEY_REVOCABLE */
} uct_glex_memh_t;

/* What an endpoint of the domain keeps from one interface to the next, by the interface's own
 * code */
typedef struct uct_glex_md_kept {
    ucs_list_link_t list;
    unsigned ep_index;
    void (*destroy)(struct uct_glex_md_kept *kept); /* when the domain closes */
} uct_glex_md_kept_t;

typedef struct uct_glex_md {
    uct_md_t super;
    glex_device_handle_t dev;
    uint32_t nic; /* which NIC of the machine */
    struct glex_device_attr dev_attr;
    struct glex_ext_device_attr ext_attr;
    struct glex_ep_attr ep_attr; /* what was asked for, as a pattern for further endpoints */
    uint32_t key;
    ucs_rcache_t *rcache;
    ucs_linear_func_t reg_cost;
    glex_ep_handle_t nic_home; /* the domain's own endpoint */
    pthread_mutex_t lock;      /* for eps, and for making registrations */
    uct_glex_md_ep_t *eps;     /* [0]: the domain's own */
    unsigned num_eps;
    glex_ep_handle_t map_ep; /* for rkey_ptr(): made at its first call, under
                                                     * the lock of the list */
    ucs_list_link_t kept;    /* uct_glex_md_kept_t.list, under `lock` */
    ucs_list_link_t list;    /* in the list of all open domains, under the
                                                     * lock of that list */
} uct_glex_md_t;

/* Handles of the windows of a peer's registration. The first RMA by the key gets them from the
 * peer. */
typedef struct uct_glex_windows {
    uct_completion_t comp; /* of the operation that gets them */
    unsigned num;
    int state;     /* enum uct_glex_windows_state */
    unsigned refs; /* the key, and the operation */
    glex_mem_handle_t mh[];
} uct_glex_windows_t;

enum uct_glex_windows_state {
    UCT_GLEX_WINDOWS_NONE,
    UCT_GLEX_WINDOWS_FETCHING, /* the interface that set this state writes the handles */
    UCT_GLEX_WINDOWS_READY
};

/* What uct_rkey_t points to. Interfaces in several threads may use one key. The key keeps where the
 * memory lies in this process for the first endpoint that uses it; others ask the NIC each time. */
typedef struct uct_glex_rkey {
    uct_glex_packed_rkey_t packed;
    uct_glex_windows_t *windows; /* NULL: packed.mh is the registration's handle */
    glex_ep_handle_t ep;         /* that endpoint, or NULL; only its thread uses the rest */
    void *ptr;                   /* NULL: not mappable */
    struct glex_ext_pin *pin;    /* of `ptr` */
    struct glex_ext_watch watch; /* `ptr` is good while this holds */
    void *user_ptr;              /* of rkey_ptr(), under the lock of the list; or NULL */
    struct glex_ext_pin *user_pin;
} uct_glex_rkey_t;

extern uct_component_t uct_glex_component;

/**
 * Borrow an endpoint for the interface `uuid`: the domain's own for the first, a new one for
 * others. Peers can ask the NIC whether this interface has the endpoint.
 * @param [out] index_p  To be given to uct_glex_memh_place() and uct_glex_md_ep_put().
 */
ucs_status_t uct_glex_md_ep_get(uct_glex_md_t *md, uint32_t uuid, glex_ep_handle_t *ep_p,
                                unsigned *index_p);

/** Close the endpoint, and give it back. */
void uct_glex_md_ep_put(uct_glex_md_t *md, unsigned index);

/** Keep something for an endpoint until the domain closes */
void uct_glex_md_keep(uct_glex_md_t *md, uct_glex_md_kept_t *kept);

/** What is kept for an endpoint, or NULL */
uct_glex_md_kept_t *uct_glex_md_find_kept(uct_glex_md_t *md, unsigned ep_index);

/** Whether peers' private memory can be reached by RDMA */
static inline int uct_glex_md_has_private_rdma(const uct_glex_md_t *md)
{
    return !!(md->ext_attr.caps & GLEX_EXT_CAP_PRIVATE_RDMA);
}

/** Whether RDMA is over when its call returns, with all peers: the software NIC without a network
 */
static inline int uct_glex_md_rdma_now(const uct_glex_md_t *md)
{
    return UCT_GLEX_NIC_RDMA_NOW && (md->ext_attr.network == 0);
}

/**
 * Whether UCX may be offered atomic operations. They need memory that the initiator maps. UCP uses
 * them for all memory that the domain has a key for, and does not fall back to its emulation by
 * messages when one fails. So no memory may have a key but what was allocated from the NIC.
 */
static inline int uct_glex_md_has_atomics(const uct_glex_md_t *md)
{
    return uct_glex_md_rdma_now(md) && !uct_glex_md_has_private_rdma(md) &&
           (md->ext_attr.caps & GLEX_EXT_CAP_MAP);
}

/** Whether UCX is to have the local memory of put and get registered */
static inline int uct_glex_md_needs_memh(const uct_glex_md_t *md)
{
    return UCT_GLEX_NEED_MEMH || !uct_glex_md_rdma_now(md);
}

/** A handle for memory, as for uct_md_mem_reg(), whose `flags` these are */
ucs_status_t uct_glex_memh_new(uct_glex_md_t *md, void *address, size_t length, unsigned flags,
                               uct_glex_memh_t **memh_p);

/** Free a list of handles, which may be empty */
void uct_glex_memh_free_all(uct_glex_md_t *md, uct_glex_memh_t *first);

/** Out of line part of uct_glex_memh_place(): first use, or first at this endpoint */
ucs_status_t uct_glex_memh_register(uct_glex_md_t *md, uct_glex_memh_t *memh, unsigned ep_index);

/** `ptr`, in registered memory, for use in RDMA at endpoint `ep_index` */
static inline ucs_status_t uct_glex_memh_place(uct_glex_md_t *md, uct_glex_memh_t *memh,
                                               unsigned ep_index, const void *ptr,
                                               uct_glex_place_t *place)
{
    /* acquire: pairs with the release of uct_glex_memh_register(). A thread that sees the pointer
     * sees the registration. */
    uct_glex_reg_t *reg = __atomic_load_n(&memh->reg, __ATOMIC_ACQUIRE);
    const uct_glex_reg_ep_t *at = (reg == NULL) ? NULL : uct_glex_reg_at(reg, ep_index);
    ucs_status_t status;
    unsigned window;
    size_t offset;

    if (at == NULL) {
        status = uct_glex_memh_register(md, memh, ep_index);
        if (status != UCS_OK) {
            return status;
        }
        reg = memh->reg;
        at = uct_glex_reg_at(reg, ep_index);
    }
    offset = (const char *)ptr - (const char *)reg->address;
    window = uct_glex_window_of(uct_glex_num_windows(reg->length), offset);
    place->mh = at->mh[window];
    place->offset = offset - uct_glex_window_begin(window);
    return UCS_OK;
}

/* ---- handles of memory, allocation, packed keys: glex_mem.c ---- */

/** Choose the operations with or without registration cache, as configured and possible */
ucs_status_t uct_glex_mem_init(uct_glex_md_t *md, const uct_glex_md_config_t *config);

/** Drop the cache with all its registrations */
void uct_glex_mem_cleanup(uct_glex_md_t *md);

/* ---- both ---- */

/** Close the domain: glex_md.c. An entry of the operations table, which is in glex_mem.c. */
void uct_glex_md_close(uct_md_h md);

/** What a NIC's refusal means to UCX */
ucs_status_t uct_glex_status(glex_ret_t ret);

/** Have the endpoint keep where a key's memory lies. Returns 0 if another endpoint does. */
int uct_glex_rkey_map(uct_glex_rkey_t *rkey, glex_ep_handle_t ep);

/** The key's windows are used no more: by the key itself, or by the operation that gets them */
void uct_glex_windows_put(uct_glex_windows_t *windows);

/** Where `length` bytes lie in this process by a key, as the NIC says. NULL, not an error: they are
 *  not mappable, or not all within a registration that holds. */
void *uct_glex_map(glex_ep_handle_t ep, const uct_glex_packed_rkey_t *packed, uint64_t address,
                   size_t length, struct glex_ext_pin **pin_p);

#endif
