/*
 * Memory domain `glex/gniN` of NIC N. The domain owns the GLEX endpoint that holds all
 * registrations. The first interface on the domain uses this endpoint (paper 003, section 5.1).
 * Further interfaces, for example of several workers, have their own endpoints. Memory is
 * registered at a further endpoint at the first use there.
 */
#ifndef UCT_GLEX_MD_H
#define UCT_GLEX_MD_H

#include "compat/glex_compat.h"
#include "base/glex_nic.h"
#include "base/glex_reg.h"
#include "base/glex_wire.h"

#include <pthread.h>

#define UCT_GLEX_NAME "glex"
/* The name of NIC i. Each NIC has a memory domain. */
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

/* UCX's handle of registered memory. If put and get need no registration of local memory, the
 * memory is registered when another operation needs the registration. */
typedef struct uct_glex_memh {
    struct uct_glex_memh *next; /* next handle of the operation, uct_glex_memh_free_all() */
    void *address;
    size_t length;
    uct_glex_reg_t *reg; /* NULL: not needed yet */
    unsigned flags;      /* of uct_md_mem_reg() */
    int revocable;       /* may be invalidated, UCT_GLEX_MKEY_REVOCABLE */
} uct_glex_memh_t;

/* An object that an endpoint of the domain keeps from one interface to the next. Code of the
 * interface derives the object. */
typedef struct uct_glex_md_kept {
    ucs_list_link_t list;
    unsigned ep_index;
    void (*destroy)(struct uct_glex_md_kept *kept); /* when the domain closes */
} uct_glex_md_kept_t;

typedef struct uct_glex_md {
    uct_md_t super;
    glex_device_handle_t dev;
    uint32_t nic; /* number of the NIC in the machine */
    struct glex_device_attr dev_attr;
    struct glex_ext_device_attr ext_attr;
    struct glex_ep_attr ep_attr; /* requested attributes, for further endpoints */
    uint32_t key;
    ucs_rcache_t *rcache;
    ucs_linear_func_t reg_cost;
    glex_ep_handle_t nic_home; /* the domain's own endpoint */
    pthread_mutex_t lock;      /* for eps, and for making registrations */
    uct_glex_md_ep_t *eps;     /* [0]: the domain's own */
    unsigned num_eps;
    glex_ep_handle_t map_ep; /* for rkey_ptr(): made at its first call, under the lock of the list
                              * of domains */
    ucs_list_link_t kept;    /* uct_glex_md_kept_t.list, under `lock` */
    ucs_list_link_t list;    /* in the list of all open domains, under the lock of this list */
} uct_glex_md_t;

/* Handles of the windows of a peer's registration. The first RMA by the key gets the handles from
 * the peer. */
typedef struct uct_glex_windows {
    uct_completion_t comp; /* of the operation that gets the handles */
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

/* The object of a uct_rkey_t. Interfaces in several threads may use one key. The key keeps the
 * address of the memory in this process for the first endpoint that uses the key. Other endpoints
 * ask the NIC each time. */
typedef struct uct_glex_rkey {
    uct_glex_packed_rkey_t packed;
    uct_glex_windows_t *windows; /* NULL: packed.mh is the registration's handle */
    glex_ep_handle_t ep;         /* the first endpoint, or NULL. Only its thread uses `ptr`, `pin`
                                  * and `watch`. */
    void *ptr;                   /* NULL: not mappable */
    struct glex_ext_pin *pin;    /* of `ptr` */
    struct glex_ext_watch watch; /* `ptr` is good while this holds */
    void *user_ptr;              /* of rkey_ptr(), under the lock of the list; or NULL */
    struct glex_ext_pin *user_pin;
} uct_glex_rkey_t;

extern uct_component_t uct_glex_component;

/**
 * Get an endpoint for the interface `uuid`: an unused endpoint of the domain, or a new endpoint.
 * The domain's own endpoint is the first choice. Peers can ask the NIC whether this interface has
 * the endpoint.
 *
 * @param [out] index_p For uct_glex_memh_place() and uct_glex_md_ep_put().
 */
ucs_status_t uct_glex_md_ep_get(uct_glex_md_t *md, uint32_t uuid, glex_ep_handle_t *ep_p,
                                unsigned *index_p);

/** Return the endpoint to the domain. The endpoint stays open, without a receiver. */
void uct_glex_md_ep_put(uct_glex_md_t *md, unsigned index);

/** Store an object that the next interface of the same endpoint finds again. The domain destroys
 * the object when it closes. */
void uct_glex_md_keep(uct_glex_md_t *md, uct_glex_md_kept_t *kept);

/** Returns the object that uct_glex_md_keep() stored for an endpoint, or NULL */
uct_glex_md_kept_t *uct_glex_md_find_kept(uct_glex_md_t *md, unsigned ep_index);

/** Whether peers' private memory can be reached by RDMA */
static inline int uct_glex_md_has_private_rdma(const uct_glex_md_t *md)
{
    return !!(md->ext_attr.caps & GLEX_EXT_CAP_PRIVATE_RDMA);
}

/** Whether RDMA ends before its call returns, with all peers: the software NIC without a network */
static inline int uct_glex_md_rdma_now(const uct_glex_md_t *md)
{
    return UCT_GLEX_NIC_RDMA_NOW && (md->ext_attr.network == 0);
}

/**
 * Whether the interface offers atomic operations. They need memory that the initiator maps. UCP
 * uses them for all memory with a key of the domain, and does not fall back to its emulation by
 * messages if an operation fails. So only memory that the NIC has allocated may have keys.
 */
static inline int uct_glex_md_has_atomics(const uct_glex_md_t *md)
{
    return uct_glex_md_rdma_now(md) && !uct_glex_md_has_private_rdma(md) &&
           (md->ext_attr.caps & GLEX_EXT_CAP_MAP);
}

/** Whether UCX must register the local memory of put and get */
static inline int uct_glex_md_needs_memh(const uct_glex_md_t *md)
{
    return UCT_GLEX_NEED_MEMH || !uct_glex_md_rdma_now(md);
}

/** Make a handle for memory. `flags`: of uct_md_mem_reg(). */
ucs_status_t uct_glex_memh_new(uct_glex_md_t *md, void *address, size_t length, unsigned flags,
                               uct_glex_memh_t **memh_p);

/** Free a list of handles. `first` may be NULL. */
void uct_glex_memh_free_all(uct_glex_md_t *md, uct_glex_memh_t *first);

/** The slow path of uct_glex_memh_place(): the first use, or the first use at this endpoint */
ucs_status_t uct_glex_memh_register(uct_glex_md_t *md, uct_glex_memh_t *memh, unsigned ep_index);

/** The handle and offset of `ptr`, in registered memory, for RDMA at endpoint `ep_index` */
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

/* Peers map an allocation of the NIC as a single registration with a single handle */
#define UCT_GLEX_MAX_ALLOC UCT_GLEX_WINDOW_MAX

/** Make the registration cache if configured and possible */
ucs_status_t uct_glex_mem_init(uct_glex_md_t *md, const uct_glex_md_config_t *config);

/** Destroy the cache with all its registrations */
void uct_glex_mem_cleanup(uct_glex_md_t *md);

/* Operations of the domain (uct_md_ops_t) */
ucs_status_t uct_glex_mem_alloc(uct_md_h uct_md, size_t *length_p, void **address_p,
                                ucs_memory_type_t mem_type,
                                UCT_GLEX_MEM_ALLOC_SYS_DEV unsigned flags, const char *alloc_name,
                                uct_mem_h *memh_p);
ucs_status_t uct_glex_mem_free(uct_md_h uct_md, uct_mem_h uct_memh);
ucs_status_t uct_glex_mem_reg(uct_md_h uct_md, void *address, size_t length,
                              uct_compat_mem_reg_arg_t arg, uct_mem_h *memh_p);
ucs_status_t uct_glex_mem_dereg(uct_md_h uct_md, const uct_md_mem_dereg_params_t *params);
ucs_status_t uct_glex_mkey_pack(uct_md_h uct_md, uct_mem_h uct_memh,
                                UCT_COMPAT_MKEY_PACK_RANGE const uct_md_mkey_pack_params_t *params,
                                void *rkey_buffer);

/* ---- both ---- */

/** Have the key keep the address of its memory for the endpoint. Returns 0 if the key keeps the
 *  address for another endpoint. */
int uct_glex_rkey_map(uct_glex_rkey_t *rkey, glex_ep_handle_t ep);

/** Drop a reference to the key's windows: of the key, or of the operation that gets the handles */
void uct_glex_windows_put(uct_glex_windows_t *windows);

/** The address of `length` bytes in this process by a key, from the NIC. NULL, not an error: the
 *  bytes are not mappable, or not all within a valid registration. */
void *uct_glex_map(glex_ep_handle_t ep, const uct_glex_packed_rkey_t *packed, uint64_t address,
                   size_t length, struct glex_ext_pin **pin_p);

#endif
